"""README.md fits on a screen, and its manifest and verdict are those of the Llama page."""

import re
from pathlib import Path

import yaml

from gaudi_operator.cli.plan.document import read_plan_document
from gaudi_operator.cli.plan.forecast import forecast_document
from gaudi_operator.cli.plan.verdict import Verdict
from localcluster.programs import debian

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
LLAMA = (ROOT / "docs" / "start" / "llama.md").read_text()


def first_manifest(page: str) -> str:
    found = re.search(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def test_readme_has_at_most_eighty_lines() -> None:
    assert len(README.splitlines()) <= 80


def test_first_manifest_has_at_most_twelve_lines() -> None:
    assert len(first_manifest(README).splitlines()) <= 12


def test_first_manifest_equals_that_of_the_llama_page() -> None:
    assert yaml.safe_load(first_manifest(README)) == yaml.safe_load(first_manifest(LLAMA))


def test_verdict_of_the_first_manifest_equals_the_documented_one() -> None:
    found = forecast_document(read_plan_document(yaml.safe_load(first_manifest(README))), card=None, model=None)
    assert found.verdict is Verdict.FITS
    assert "gaudi-plan forecast -f llama.yaml                 # FITS:" in README
    assert "here `FITS`" in LLAMA


def test_every_package_that_the_demo_installs_is_listed() -> None:
    listed = re.search(r"of this list, without removing any other: `([^`]+)`", README)
    assert listed
    assert listed[1].split() == sorted(debian.NODE | debian.IMAGES)
