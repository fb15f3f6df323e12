"""Says to this process that other releases are installed: metadata as pip would write it, and nothing besides."""

from pathlib import Path

import pytest


def pretend_installed(monkeypatch: pytest.MonkeyPatch, folder: Path, **packages: str) -> None:
    """Put the metadata of `packages`, versions by name, into `folder`, where they are found first."""
    for name, version in packages.items():
        info = folder / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n")
    monkeypatch.syspath_prepend(folder)
