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
    all_layers = (layers for contract in contracts if contract["type"] == "layers" for layers in layers_of(contract))
    cells = [cell for layers in all_layers if (cell := _allowed_imports(module, layers)) is not None]
    if not cells:
        return None
    libraries = _exclusive_libraries(module, contracts)
    return "; ".join([*dict.fromkeys(cells), *([f"only there: {libraries}"] if libraries else [])])


def _allowed_imports(module: str, layers: Layers) -> str | None:
    for layer, next_layer in zip(layers, [*layers[1:], []], strict=True):
        if any(f"{module}.".startswith(f"{name}.") for name in layer):
            suffix = " and below" if next_layer and next_layer is not layers[-1] else ""
            return (", ".join(f"`{name.rpartition('.')[2]}`" for name in next_layer) or NOTHING) + suffix
    return None


def _exclusive_libraries(module: str, contracts: Contracts) -> str:
    """Return the libraries that this module may import although a contract forbids them in the package."""
    own_contracts = (contract for contract in contracts if module.split(".")[0] in contract.get("source_modules", ()))
    imports = (line.split(" -> ") for contract in own_contracts for line in contract.get("ignore_imports", ()))
    packages = {imported.split(".")[0] for importer, imported in imports if f"{importer}.".startswith(f"{module}.")}
    return ", ".join(f"`{package}`" for package in sorted(packages))


def fill_cells(page: str, contracts: Contracts) -> str:
    """Return the page with the last cell of each row that belongs to a contract."""

    def fill_row(match: re.Match[str]) -> str:
        path, description = match.groups()
        cell = may_import(path.removesuffix(".py").rstrip("/").replace("/", "."), contracts)
        return match[0] if cell is None else f"| `{match[0].split('`')[1]}` | {description} | {cell} |"

    return ROW.sub(fill_row, page)


def page() -> str:
    """Return the whole page with the column filled from the contracts of pyproject.toml."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return fill_cells(PAGE.read_text(), contracts)


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}))
