"""README.md fits on a screen, and its commands name what the repository has."""

import re
from pathlib import Path

import pytest
import yaml

from gaudi_operator.cli.plan.forecast import forecast_deployment
from gaudi_operator.cli.plan.question import read_question
from gaudi_operator.cli.plan.verdict import Verdict

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
LLAMA = (ROOT / "docs" / "start" / "llama.md").read_text()
PAGES = {name: (ROOT / name).read_text() for name in ("README.md", "docs/start/quickstart.md", "docs/start/llama.md")}
COMMANDS = "\n".join(re.findall(r"^```sh\n(.*?)^```", "\n".join(PAGES.values()), re.MULTILINE | re.DOTALL))


def first_manifest(page: str) -> str:
    found = re.search(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def test_readme_has_at_most_eighty_lines() -> None:
    assert len(README.splitlines()) <= 80


def test_first_manifest_has_at_most_twelve_lines() -> None:
    assert len(first_manifest(README).splitlines()) <= 12


def test_first_manifest_is_that_of_the_llama_page() -> None:
    assert yaml.safe_load(first_manifest(README)) == yaml.safe_load(first_manifest(LLAMA))


def test_verdict_of_the_first_manifest_is_the_one_shown() -> None:
    found = forecast_deployment(read_question(yaml.safe_load(first_manifest(README))), card=None, model=None)
    assert found.verdict is Verdict.WARNINGS
    assert all("FITS WITH WARNINGS" in page for page in (README, LLAMA))


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_of_the_start_pages_are_there(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"\bmake ([a-z-]+)", PAGES[page]))
    assert [target for target in sorted(named) if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


def test_images_that_are_built_are_targets_of_the_dockerfile() -> None:
    named = set(re.findall(r"docker build --target (\S+)", COMMANDS))
    assert named == {"operator", "runtime-hpu"}
    assert named <= set(re.findall(r"^FROM \S+ AS (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE))


def test_values_that_are_set_are_those_of_the_chart() -> None:
    values = yaml.safe_load((ROOT / "charts" / "gaudi-operator" / "values.yaml").read_text())
    named = re.findall(r"--set (\w+)\.(\w+)=", COMMANDS)
    assert named
    assert [(group, key) for group, key in named if key not in values[group]] == []


def test_files_of_the_commands_are_there() -> None:
    named = set(re.findall(r"\b(?:examples|charts)/\S+", COMMANDS))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
