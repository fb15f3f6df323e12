"""The scripts of examples/upgrade: their changes are accepted and create revisions as described."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gaudi_operator.core.admission.spec_checks import first_spec_violation
from gaudi_operator.core.inference import read_inference
from gaudi_operator.core.rollout.revision import revision_inputs
from tests.support.builders import merged
from tests.unit.operator.core.resources import DEFAULTS

FOLDER = Path(__file__).parents[5] / "examples" / "upgrade"
SCRIPTS = sorted(FOLDER.glob("[0-9]-*.sh"))
CHANGE = re.compile(r"^patch_spec <<'YAML'\n(.*?)^YAML$", re.MULTILINE | re.DOTALL)


def states(script: Path) -> list[dict[str, Any]]:
    """Return the first manifest of a script, and the manifest after each change."""
    text = script.read_text()
    begun = re.search(r"^begin (\S+)$", text, re.MULTILINE)
    assert begun
    found = [yaml.safe_load((FOLDER / begun[1]).read_text())]
    for change in CHANGE.findall(text):
        found.append(merged(found[-1], yaml.safe_load(change)))
    return found


def inputs(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the revision inputs of this manifest."""
    metadata = {"namespace": "default", "uid": "u", "generation": 1, **manifest["metadata"]}
    inference = read_inference({**manifest, "metadata": metadata})
    assert first_spec_violation(inference, DEFAULTS) is None
    return dict(revision_inputs(inference))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_changes_the_revision_of_an_accepted_deployment(script: Path) -> None:
    first, *changed = [inputs(state) for state in states(script)]
    assert changed
    assert changed[0] != first


@pytest.mark.parametrize("script", [*SCRIPTS, FOLDER / "common.sh"], ids=lambda path: path.stem)
def test_script_is_valid_posix_shell(script: Path) -> None:
    subprocess.run(["sh", "-n", script], check=True)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_is_executable_and_starts_with_a_description(script: Path) -> None:
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/bin/sh\n# ")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_readme_lists_the_script(script: Path) -> None:
    assert f"({script.name})" in (FOLDER / "README.md").read_text()


@pytest.mark.parametrize(
    ("check", "code"),
    [
        ("expect_equal ready 2/2 2/2", 0),
        ("expect_equal ready 1/2 2/2", 1),
        ("expect_contains 'a b c' b", 0),
        ("expect_contains 'a b c' d", 1),
    ],
)
def test_script_stops_when_its_check_fails(check: str, code: int) -> None:
    command = ["sh", "-c", f'. "{FOLDER}/common.sh"; {check}; exit 0', str(FOLDER / "a-script.sh")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "FAILED" in done.stderr) == (code, bool(code))
