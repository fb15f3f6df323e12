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
    """An advisory that applies to a pin. `fixed` contains the versions that fix the fault."""

    pin: Pin
    advisory: str
    aliases: tuple[str, ...]
    fixed: tuple[str, ...]

    def __str__(self) -> str:
        """Return a sentence."""
        known = f" ({', '.join(self.aliases)})" if self.aliases else ""
        remedy = f"fixed in {', '.join(self.fixed)}" if self.fixed else "no version fixes it"
        return f"{self.pin.name} {self.pin.version}: {self.advisory}{known}, {remedy}."


def scan(pinned: Sequence[Pin], folder: Path) -> list[Finding]:
    """Return the advisories for the pins. Raises FileNotFoundError if the folder has no advisories."""
    by_name = {each.name: each for each in pinned}
    found, read = [], 0
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".yaml", ".json"):
            continue
        read += 1
        # Skip the folders of other packages. The Python advisory database has one folder for each package.
        if path.parent != folder and path.parent.name not in by_name and path.parent.parent.name == "vulns":
            continue
        found += list(_findings(_read(path), by_name))
    if not read:
        raise FileNotFoundError(f"{folder} has no advisory: pass the folder of a list in the OSV format.")
    return found


def _read(path: Path) -> Mapping[str, Any]:
    text = path.read_text()
    found = json.loads(text) if path.suffix == ".json" else yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe one
    return found if isinstance(found, Mapping) else {}


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _findings(advisory: Mapping[str, Any], by_name: Mapping[str, Pin]) -> Iterator[Finding]:
    if advisory.get("withdrawn"):
        return
    for affected in advisory.get("affected", ()):
        package = affected.get("package", {})
        pin = by_name.get(plain_name(str(package.get("name", ""))))
        if pin is None or package.get("ecosystem") != "PyPI":
            continue
        ranges = [each["events"] for each in affected.get("ranges", ()) if each.get("type") in ("ECOSYSTEM", "SEMVER")]
        if pin.version in map(str, affected.get("versions", ())) or any(_within(pin.version, each) for each in ranges):
            fixed = tuple(str(event["fixed"]) for events in ranges for event in events if "fixed" in event)
            yield Finding(pin, str(advisory["id"]), tuple(map(str, advisory.get("aliases", ()))), fixed)


def _within(version: str, events: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if a version is not below a version that introduced the fault, and below the one that fixed it."""
    try:
        here, inside = Version(version), False
        for event in sorted(events, key=lambda each: _version(next(iter(each.values())))):
            ((kind, at),) = event.items()
            if kind == "introduced" and here >= _version(at):
                inside = True
            elif (kind == "fixed" and here >= _version(at)) or (kind == "last_affected" and here > _version(at)):
                inside = False
    except InvalidVersion:
        return False
    return inside


def _version(text: object) -> Version:
    return Version(str(text))
