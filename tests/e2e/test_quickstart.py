"""The commands of docs/start/quickstart.md. They run unchanged on a cluster like the cluster of `make demo`."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from demo.install import Installation
from localcluster import tools
from tests.support.documented import IN_QUICKSTART, QUICKSTART, ROOT
from tests.support.shell import Shell, make_clone, search_path, table_of_times

NAME = "tiny-vllm-cpu"
PAGE = (ROOT / QUICKSTART).read_text()
KUBECONFIG = Path(".cache/gaudi-operator/run/demo/kubeconfig")


@pytest.fixture(scope="module")
def home(installed: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home folder with the kubeconfig and the programs that `make demo` creates."""
    home = tmp_path_factory.mktemp("home")
    cache = home / ".cache" / "gaudi-operator"
    kubeconfig = home / KUBECONFIG
    kubeconfig.parent.mkdir(parents=True)
    kubeconfig.write_bytes(installed.kubeconfig.read_bytes())  # the page changes its namespace
    (cache / "bin").symlink_to(tools().bin_dir)
    return home


@pytest.fixture(scope="module")
def outputs(installed: Installation, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The output of each block of the page, by heading and number."""
    clone = make_clone(tmp_path_factory.mktemp("clone"))
    with Shell(clone, {"HOME": str(home), "PATH": search_path()}) as shell:
        found = shell.run_all(IN_QUICKSTART)
        print(f"\n{table_of_times(shell.times)}")  # noqa: T201
    yield {name.removeprefix(f"{QUICKSTART}, "): output for name, output in found.items()}
    installed.kubectl("delete", "namespace", "quickstart", "--ignore-not-found", "--wait=false")


def columns(text: str) -> list[str]:
    """Return the words in the table of `kubectl get gi` without the last column (age)."""
    found = re.search(rf"^(NAME .*)\n({NAME} .*) \S+$", text, re.MULTILINE)
    assert found
    return f"{found[1]} {found[2]}".split()


def test_table_of_a_ready_model_has_the_documented_columns(outputs: dict[str, str]) -> None:
    assert columns(outputs["Serve a model 1"]) == columns(PAGE)


def test_streamed_completion_ends_with_the_done_event(outputs: dict[str, str]) -> None:
    lines = [line for line in outputs["Ask it 1"].splitlines() if line.startswith("data: ")]
    assert len(lines) > 2
    assert lines[-1] == "data: [DONE]"


def test_upgrade_creates_a_second_revision(outputs: dict[str, str]) -> None:
    numbers = re.findall(r"^\W*(\d+)\b", outputs["Upgrade it 2"].partition("REVISION")[2], re.MULTILINE)
    assert numbers == ["1", "2"]


def test_no_request_fails_during_the_upgrade(outputs: dict[str, str]) -> None:
    assert re.search(r"^[1-9]\d* requests, 0 failed$", outputs["Upgrade it 3"], re.MULTILINE)


def test_undo_ends_with_a_complete_rollout(outputs: dict[str, str]) -> None:
    assert "successfully rolled out" in outputs["Upgrade it 4"]


def test_output_of_why_names_the_ready_model(outputs: dict[str, str]) -> None:
    assert NAME in outputs["Find out why a model is not ready 1"]


@pytest.mark.usefixtures("outputs")
def test_context_does_not_stay_on_the_deleted_namespace(home: Path) -> None:
    config = yaml.safe_load((home / KUBECONFIG).read_text())
    contexts = {each["name"]: each["context"] for each in config["contexts"]}
    assert contexts[config["current-context"]]["namespace"] == "default"
