"""The column "may import" of the architecture page agrees with the import contracts."""

import pytest

from scripts.layers import fill_cells, may_import

LAYERS = {"type": "layers", "containers": ["gaudi_runtime"], "layers": ["serve", "engines | http", "(units)"]}
WHOLE = {"type": "layers", "layers": ["gaudi_operator.shell | gaudi_operator.cli", "gaudi_operator.core"]}
TORCH = {
    "type": "forbidden",
    "source_modules": ["gaudi_runtime"],
    "ignore_imports": ["gaudi_runtime.engines.torch.** -> torch", "gaudi_runtime.engines.torch.** -> torch.**"],
}
IN_A_PART = {**TORCH, "source_modules": ["gaudi_runtime.http"], "ignore_imports": ["gaudi_runtime.http.page -> os"]}
CONTRACTS = [LAYERS, WHOLE, TORCH, IN_A_PART]


@pytest.mark.parametrize(
    ("module", "cell"),
    [
        ("gaudi_runtime.serve", "`engines`, `http` and below"),
        ("gaudi_runtime.engines", "`units`; only there: `torch`"),
        ("gaudi_runtime.http", "`units`"),
        ("gaudi_runtime.http.openai_api", "`units`"),
        ("gaudi_runtime.units", "nothing of its package"),
        ("gaudi_operator.cli", "`core`"),
        ("gaudi_runtime.server", None),
    ],
)
def test_cell_lists_the_layers_that_a_module_may_import(module: str, cell: str | None) -> None:
    assert may_import(module, CONTRACTS) == cell


def test_rows_without_a_contract_are_unchanged() -> None:
    page = "| `docs/` | the manual | by hand |\n| `runtime/gaudi_runtime/other/` | other | by hand |\n"
    assert fill_cells(page, CONTRACTS) == page


def test_imports_column_is_filled_for_folders_and_modules() -> None:
    page = "| `runtime/gaudi_runtime/http/` | a | b | old |\n| `runtime/gaudi_runtime/units.py` | sizes | |\n"
    assert fill_cells(page, CONTRACTS) == (
        "| `runtime/gaudi_runtime/http/` | a | b | `units` |\n"
        "| `runtime/gaudi_runtime/units.py` | sizes | nothing of its package |\n"
    )
