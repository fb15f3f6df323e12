"""The pinned packages of the images (requirements/README.md)."""

import re
import tomllib
from pathlib import Path

import pytest

from scripts.chart_docs import ROOT

FOLDER = ROOT / "requirements"
IMAGES = ("build", "operator", "runtime", "torch")


def pins(name: str) -> dict[str, str]:
    """Return the version of each package in requirements/NAME.txt."""
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (FOLDER / f"{name}.txt").read_text(), re.MULTILINE))


def packages_of(extra: str) -> set[str]:
    """Return the packages that an extra names, directly or through other extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names: set[str] = set()
    for requirement in [*project["dependencies"], *project["optional-dependencies"][extra]]:
        match = re.match(r"([a-z0-9-]+)(?:\[([a-z,]+)\])?", requirement)
        assert match
        inner = match[2].split(",") if match[1] == project["name"] else []
        names |= {name for each in inner for name in packages_of(each)} if inner else {match[1]}
    return names


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_requirements_file_contains_no_index_and_no_url(path: Path) -> None:
    assert re.search(r"://|^--?[a-z]*-?(index|find)", path.read_text(), re.MULTILINE) is None


@pytest.mark.parametrize("name", [*IMAGES, "dev"])
def test_every_pin_has_hashes(name: str) -> None:
    entries = re.split(r"\n(?=\S)", (FOLDER / f"{name}.txt").read_text().strip())
    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("name", IMAGES)
def test_image_pins_the_same_versions_as_the_test_environment(name: str) -> None:
    tested = pins("dev")
    assert {
        (package, version) for package, version in pins(name).items() if tested.get(package, version) != version
    } == set()


@pytest.mark.parametrize(
    ("extras", "files"),
    [
        (("operator",), ("operator",)),
        (("vllm", "plan"), ("runtime", "torch")),
        (("dev",), ("dev",)),
    ],
)
def test_requirements_files_contain_all_packages_of_the_extras(extras: tuple[str, ...], files: tuple[str, ...]) -> None:
    named = {name for extra in extras for name in packages_of(extra)}
    assert named - {name for file in files for name in pins(file)} == set()


def test_operator_image_has_no_torch() -> None:
    assert not {"torch", "transformers", "numpy"} & set(pins("operator"))
