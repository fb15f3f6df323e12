"""Writes the column "may import" of docs/internals/architecture.md from the contracts of import-linter.

`python -m scripts.layers` writes the column. With `--check`, it fails if the column differs. A row is filled if its
folder or module is in a `layers` contract of pyproject.toml. Other rows are not changed.
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

from scripts.generated import ROOT, write_or_check

PAGE = ROOT / "docs" / "internals" / "architecture.md"
ROW = re.compile(r"^\| `(?:operator|runtime)/(gaudi_\w+/[\w/.]+)` \| (.*) \| [^|]*\|$", re.MULTILINE)

NOTHING = "nothing of its package"

Contracts = Sequence[dict[str, Any]]
Layers = list[list[str]]
"""The full names of the modules of each layer, the highest layer first."""


def layers_of(contract: dict[str, Any]) -> Iterator[Layers]:
    """Yield the layers of a contract for each of its containers."""
    for container in contract.get("containers", [""]):
        prefix = f"{container}." if container else ""
        layers = (re.split(r"[|:]", layer) for layer in contract["layers"])
        yield [[prefix + name.strip(" ()") for name in layer] for layer in layers]


def may_import(module: str, contracts: Contracts) -> str | None:
    """Return the cell with the allowed imports of a module, or None if the module is in no `layers` contract."""
    found = (layers for each in contracts if each["type"] == "layers" for layers in layers_of(each))
    below = [allowed for layers in found if (allowed := _below(module, layers)) is not None]
    if not below:
        return None
    alone = _only_there(module, contracts)
    return "; ".join([*dict.fromkeys(below), *([f"only there: {alone}"] if alone else [])])


def _below(module: str, layers: Layers) -> str | None:
    for layer, lower in zip(layers, [*layers[1:], []], strict=True):
        if any(f"{module}.".startswith(f"{each}.") for each in layer):
            rest = " and below" if lower and lower is not layers[-1] else ""
            return (", ".join(f"`{each.rpartition('.')[2]}`" for each in lower) or NOTHING) + rest
    return None


def _only_there(module: str, contracts: Contracts) -> str:
    """Return the libraries that this module may import although a contract forbids them in the package."""
    whole = (each for each in contracts if module.split(".")[0] in each.get("source_modules", ()))
    ignored = (line.split(" -> ") for contract in whole for line in contract.get("ignore_imports", ()))
    packages = {imported.split(".")[0] for importer, imported in ignored if f"{importer}.".startswith(f"{module}.")}
    return ", ".join(f"`{each}`" for each in sorted(packages))


def filled(page: str, contracts: Contracts) -> str:
    """Return the page with the last cell of each row that belongs to a contract."""

    def row(found: re.Match[str]) -> str:
        path, what = found.groups()
        cell = may_import(path.removesuffix(".py").rstrip("/").replace("/", "."), contracts)
        return found[0] if cell is None else f"| `{found[0].split('`')[1]}` | {what} | {cell} |"

    return ROW.sub(row, page)


def page() -> str:
    """Return the whole page with the column filled from the contracts of pyproject.toml."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return filled(PAGE.read_text(), contracts)


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}))
