"""Checks pins against a list of advisories in the OSV format: YAML or JSON files, as in the Python advisory database.

The list is a folder, so that a scan needs no network and is reproducible.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from packaging.version import InvalidVersion, Version

from scripts.release.pins import Pin, plain_name


@dataclass(frozen=True)
class Finding:
    """An advisory that applies to a pin. `fixed_versions` contains the versions that fix the fault."""

    pin: Pin
    advisory: str
    aliases: tuple[str, ...]
    fixed_versions: tuple[str, ...]

    def __str__(self) -> str:
        """Return a sentence."""
        aliases = f" ({', '.join(self.aliases)})" if self.aliases else ""
        remedy = f"fixed in {', '.join(self.fixed_versions)}" if self.fixed_versions else "no version fixes it"
        return f"{self.pin.name} {self.pin.version}: {self.advisory}{aliases}, {remedy}."


def scan(pins: Sequence[Pin], folder: Path) -> list[Finding]:
    """Return the advisories for the pins. Raises FileNotFoundError if the folder has no advisories."""
    by_name = {pin.name: pin for pin in pins}
    findings, file_count = [], 0
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".yaml", ".json"):
            continue
        file_count += 1
        # Skip the folders of other packages. The Python advisory database has one folder for each package.
        if path.parent != folder and path.parent.name not in by_name and path.parent.parent.name == "vulns":
            continue
        findings += list(_findings(_read(path), by_name))
    if not file_count:
        raise FileNotFoundError(f"{folder} has no advisory: pass the folder of a list in the OSV format.")
    return findings


def _read(path: Path) -> Mapping[str, Any]:
    text = path.read_text()
    entry = json.loads(text) if path.suffix == ".json" else yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe one
    return entry if isinstance(entry, Mapping) else {}


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _findings(advisory: Mapping[str, Any], by_name: Mapping[str, Pin]) -> Iterator[Finding]:
    if advisory.get("withdrawn"):
        return
    for affected in advisory.get("affected", ()):
        package = affected.get("package", {})
        pin = by_name.get(plain_name(str(package.get("name", ""))))
        if pin is None or package.get("ecosystem") != "PyPI":
            continue
        ranges = [item["events"] for item in affected.get("ranges", ()) if item.get("type") in ("ECOSYSTEM", "SEMVER")]
        if pin.version in map(str, affected.get("versions", ())) or any(_affects(pin.version, item) for item in ranges):
            fixed_versions = tuple(str(event["fixed"]) for events in ranges for event in events if "fixed" in event)
            yield Finding(pin, str(advisory["id"]), tuple(map(str, advisory.get("aliases", ()))), fixed_versions)


def _affects(version: str, events: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if a version is not below a version that introduced the fault, and below the one that fixed it."""
    try:
        given, affected = Version(version), False
        for event in sorted(events, key=lambda item: _version(next(iter(item.values())))):
            ((kind, edge),) = event.items()
            if kind == "introduced" and given >= _version(edge):
                affected = True
            elif (kind == "fixed" and given >= _version(edge)) or (kind == "last_affected" and given > _version(edge)):
                affected = False
    except InvalidVersion:
        return False
    return affected


def _version(text: object) -> Version:
    return Version(str(text))
