"""Package metadata, as pip writes it, of releases that are not installed."""

from pathlib import Path

import pytest


def pretend_installed(monkeypatch: pytest.MonkeyPatch, folder: Path, **packages: str) -> None:
    """Write package metadata with these versions to `folder`, and put the folder first in the search path."""
    for name, version in packages.items():
        info = folder / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n")
    monkeypatch.syspath_prepend(folder)
