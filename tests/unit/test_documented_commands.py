"""Commands on README.md, the start pages and the runbooks: run by a test or excused in a table."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from gaudi_operator.cli.kubectl.app import app as kubectl
from gaudi_operator.cli.plan.app import app as plan
from tests.support.documented import (
    IN_QUICKSTART,
    LLAMA,
    NOT_RUN,
    ON_CARD,
    PAGES,
    QUICKSTART,
    README,
    ROOT,
    RUN,
    SUBSTITUTIONS,
    Substitution,
    blocks,
    documents,
    fences,
    tiny_llama,
)
from tests.support.shell import Shell

IMAGES = f"{LLAMA}, A model for text and images 2"
RELEASE = (ROOT / "tests" / "ecosystem" / "test_release.py").read_text()
START = {name: (ROOT / name).read_text() for name in (README, QUICKSTART, LLAMA)}
COMMANDS = "\n".join(re.findall(r"^```sh\n(.*?)^```", "\n".join(START.values()), re.MULTILINE | re.DOTALL))


def test_every_block_is_run_or_is_excluded_with_a_reason() -> None:
    missing = [name for name in blocks() if name not in RUN and name not in NOT_RUN]
    assert missing == [], "add these blocks to a sequence of tests/support/documented.py, or to NOT_RUN with a reason"


def test_tables_contain_only_existing_blocks() -> None:
    assert RUN | NOT_RUN.keys() <= blocks().keys()
    assert RUN.isdisjoint(NOT_RUN)


@pytest.mark.parametrize("page", PAGES)
def test_every_code_block_has_language_sh_yaml_or_none(page: str) -> None:
    languages = {line for line in (ROOT / page).read_text().splitlines() if line.lstrip().startswith("```")}
    assert languages <= {"```", "```sh", "```yaml"}


@pytest.mark.parametrize("name", NOT_RUN)
def test_block_that_is_not_run_names_an_existing_file(name: str) -> None:
    file, reason = NOT_RUN[name]
    assert (ROOT / file).is_file()
    assert reason.endswith(".")


def test_release_test_unpacks_the_four_blocks_of_its_section() -> None:
    assert 'LOAD, CHART, WHEEL, BY_KREW = blocks("From the files of a release", "sh")' in RELEASE


@pytest.mark.parametrize("each", SUBSTITUTIONS, ids=lambda each: each.written)
def test_every_substitution_is_used_by_an_executed_block(each: Substitution) -> None:
    assert any(each.written in blocks()[name] for name in RUN)
    assert each.reason.endswith(".")


def test_blocks_run_in_the_order_of_their_page() -> None:
    order = list(blocks())
    for names in (IN_QUICKSTART, [name for name in ON_CARD[1] if name.startswith(LLAMA)]):
        assert sorted(names, key=order.index) == list(names)


def test_tiny_llama_differs_from_the_readme_only_in_model() -> None:
    (written,), tiny = documents(f"{README}, On Gaudi 1"), tiny_llama("http://hub")
    assert tiny["metadata"] == written["metadata"]
    spec, changed = written["spec"], tiny["spec"]
    assert {key for key in spec if changed[key] != spec[key]} == {"model"}
    repo = spec["model"]["source"]["huggingFace"]["repo"]
    assert changed["model"]["source"] == {"huggingFace": {"repo": repo}}


def test_documented_image_request_contains_the_encoded_image(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(b"\x89PNG of a cat")
    (tmp_path / "curl").write_text("#!/bin/sh\ncat > body.json\n")
    (tmp_path / "curl").chmod(0o755)
    request = "python3 -" + blocks()[IMAGES].partition("\npython3 -")[2]
    with Shell(tmp_path, {}) as shell:
        shell.execute(f'PATH="$PWD:$PATH"\n{request}', IMAGES)
    body: dict[str, Any] = json.loads((tmp_path / "body.json").read_text())
    example = yaml.safe_load((ROOT / "examples" / "vllm" / "qwen2.5-vl-7b.yaml").read_text())
    assert [body["model"]] == example["spec"]["model"]["servedNames"]
    image = body["messages"][0]["content"][1]["image_url"]["url"]
    assert base64.b64decode(image.removeprefix("data:image/png;base64,")) == b"\x89PNG of a cat"


@pytest.mark.parametrize(("commands", "printed"), [("echo $kind", "bucket\n"), ("kill %1", "")])
def test_later_blocks_can_use_variables_and_jobs_of_earlier_blocks(tmp_path: Path, commands: str, printed: str) -> None:
    with Shell(tmp_path, {}) as shell:
        shell.execute("kind=bucket\nsleep 60 > /dev/null &", "the first block")
        assert shell.execute(commands, "the second block") == printed


def test_failed_command_names_the_block_and_its_output(tmp_path: Path) -> None:
    with (
        Shell(tmp_path, {}) as shell,
        pytest.raises(AssertionError, match=r"A command of the block failed:(.|\n)*no such bucket"),
    ):
        shell.execute("echo no such bucket\nfalse | cat\necho not reached", "the block")


def test_fences_are_named_by_heading_and_number() -> None:
    assert list(fences(QUICKSTART, "sh"))[:3] == [
        f"{QUICKSTART}, Start a cluster 1",
        f"{QUICKSTART}, Start a cluster 2",
        f"{QUICKSTART}, Serve a model 1",
    ]


@pytest.mark.parametrize("page", START)
def test_make_targets_of_the_start_pages_exist(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"\bmake ([a-z0-9-]+)", START[page]))
    assert [target for target in sorted(named) if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


def test_documented_pip_installs_only_into_a_virtual_environment() -> None:
    installs = {name: text.partition("pip install")[0] for name, text in blocks().items() if "pip install" in text}
    assert len(installs) == 3
    assert [name for name, before in installs.items() if "python3 -m venv " not in before] == []


def test_documented_build_targets_exist_in_the_dockerfile() -> None:
    named = set(re.findall(r"docker build --target (\S+)", COMMANDS))
    assert named == {"operator", "runtime-hpu"}
    assert named <= set(re.findall(r"^FROM \S+ AS (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE))


def test_documented_helm_values_exist_in_the_chart() -> None:
    values = yaml.safe_load((ROOT / "charts" / "gaudi-operator" / "values.yaml").read_text())
    named = re.findall(r"--set (\w+)\.(\w+)=", COMMANDS)
    assert named
    assert [(group, key) for group, key in named if key not in values[group]] == []


def test_named_commands_of_both_tools_exist() -> None:
    """Messages, help texts, descriptions of fields, and pages name commands of these tools in backticks."""
    named = {
        (program, tuple(words.split()))
        for folder in ("charts", "demo", "docs", "examples", "operator", "runtime")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".md", ".py", ".txt", ".yaml"}
        for program, words in re.findall(r"`(gaudi-plan|kubectl gaudi)((?: [a-z]+(?![\w.-]))*)", path.read_text())
    }
    known = {name for name, words in named if _has_command(name, words)}
    assert known == {"gaudi-plan", "kubectl gaudi"}
    assert [(name, words) for name, words in sorted(named) if not _has_command(name, words)] == []


def _has_command(program: str, words: tuple[str, ...]) -> bool:
    """Return True if the words after the name of a program begin with one of its commands, or there are none."""
    command: Any = typer.main.get_command({"gaudi-plan": plan, "kubectl gaudi": kubectl}[program])
    for word in words:
        if not hasattr(command, "commands"):
            return True
        if word not in command.commands:
            return False
        command = command.commands[word]
    return True


def test_files_named_in_commands_exist() -> None:
    named = set(re.findall(r"\b(?:examples|charts)/\S+", COMMANDS))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_walk_uses_the_commands_of_the_runbooks() -> None:
    script = (ROOT / "examples" / "monitoring" / "walk.sh").read_text()
    runbooks = (ROOT / "docs" / "how-to" / "troubleshoot.md").read_text()
    for section in ("GaudiModelRolledBack", "GaudiModelStalled"):
        text = runbooks.partition(f"### {section}\n")[2].partition("\n### ")[0]
        commands = [
            each.replace(" -n NS", "").replace("NAME", "walkthrough") for each in re.findall(r"`([^`]+)`", text)
        ]
        assert any(f"\nrun {each}\n" in script for each in commands), section
