"""Pretend that other releases are installed, by package metadata as pip writes it."""

from pathlib import Path

import pytest


def pretend_installed(monkeypatch: pytest.MonkeyPatch, folder: Path, **packages: str) -> None:
    """Write the metadata of `packages`, versions by name, into `folder`, which is searched first."""
    for name, version in packages.items():
        info = folder / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n")
    monkeypatch.syspath_prepend(folder)
