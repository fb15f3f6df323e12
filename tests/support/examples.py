"""The manifests that users copy, from examples/, from the chart and from the manual."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.support.builders import merged

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples"
EXAMPLES = sorted(path for path in FOLDER.rglob("*.yaml") if path.name != "values.yaml")
FIRST = ROOT / "charts" / "gaudi-operator" / "files" / "first.yaml"
"""The manifest that the chart's NOTES print."""
KIND = "GaudiInference"

Manifest = dict[str, Any]


def manifests() -> dict[str, Manifest]:
    """Return every complete manifest by its location."""
    files = {path.relative_to(ROOT).as_posix(): yaml.safe_load(path.read_text()) for path in (*EXAMPLES, FIRST)}
    return {**files, **{place: found for place, found in _of_the_manual() if _is_whole(found)}}


def fragments() -> dict[str, Manifest]:
    """Return the partial specs in the manual by page and number. The function `completed` adds the missing fields."""
    return {place: found for place, found in _of_the_manual() if "spec" in found and not _is_whole(found)}


def completed(fragment: Manifest) -> Manifest:
    """Return the chart's first manifest with the partial spec `fragment` merged into it."""
    first = manifests()[FIRST.relative_to(ROOT).as_posix()]
    spec = first["spec"]
    if "source" in fragment["spec"].get("model", {}):
        # Remove the source of the first manifest, because the fragment sets another source and a spec may have only
        # one.
        spec = {**spec, "model": {key: value for key, value in spec["model"].items() if key != "source"}}
    return {**first, "spec": merged(spec, fragment["spec"])}


def _is_whole(document: Manifest) -> bool:
    return {"model", "accelerator"} <= document["spec"].keys()


def _of_the_manual() -> Iterator[tuple[str, Manifest]]:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        fences = re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        for number, text in enumerate(fences, start=1):
            for document in _documents(text):
                if isinstance(document, dict) and _is_ours(document):
                    yield f"{page.relative_to(ROOT).as_posix()} {number}", document


def _is_ours(document: Manifest) -> bool:
    """Return True if a document is a GaudiInference. A document without a kind is also a GaudiInference."""
    return document.get("kind", KIND) == KIND and isinstance(document.get("spec"), dict)


def _documents(text: str) -> list[object]:
    try:
        return list(yaml.safe_load_all(text))
    except yaml.YAMLError:  # The block is not YAML but an outline with ellipses.
        return []
