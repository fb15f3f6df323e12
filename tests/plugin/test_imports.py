"""The names that the plugin imports from vLLM. The matching release must define each name. Files are only parsed."""

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.plugin.engine import call_in_fork
from tests.plugin.environment import source
from tests.support.knob_defaults import wrong_defaults

SITE_PACKAGES = Path(str(find_spec("vllm").origin)).parents[1]  # type: ignore[union-attr]
Name = tuple[str, str]


def imported_names(tree: ast.AST) -> Iterator[Name]:
    """Yield each `from vllm... import name`, except imports for type checking and imports whose failure is handled."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Try) and any("ImportError" in ast.unparse(each) for each in node.handlers):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "vllm":
            yield from ((str(node.module), each.name) for each in node.names)
        yield from imported_names(node)


def defined_names(file: Path) -> set[str]:
    """Return the names that a module defines at top level, including names inside conditions."""
    found: set[str] = set()
    nodes: list[ast.AST] = list(ast.parse(file.read_text(encoding="utf-8")).body)
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            found |= defined_names(file.parent.joinpath(*str(node.module).split(".")).with_suffix(".py"))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(each.asname or each.name).partition(".")[0] for each in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        else:
            nodes.extend(ast.iter_child_nodes(node))
    return found


def resolves(name: Name) -> bool:
    """Return True if the installed release contains this name, as a module or in a module."""
    module = SITE_PACKAGES / name[0].replace(".", "/")
    if (module / name[1]).is_dir() or (module / f"{name[1]}.py").is_file():
        return True
    file = module.with_suffix(".py") if module.with_suffix(".py").is_file() else module / "__init__.py"
    if not file.is_file():
        return False
    names = defined_names(file)
    return name[1] in names or "__getattr__" in names


def plugin_files() -> list[Path]:
    return sorted((source() / "vllm_gaudi").rglob("*.py"))


@pytest.mark.parametrize("folder", sorted({each.parent for each in plugin_files()}), ids=lambda each: each.name)
def test_vllm_has_every_name_that_the_plugin_imports(folder: Path) -> None:
    wanted = {
        name for file in folder.glob("*.py") for name in imported_names(ast.parse(file.read_text(encoding="utf-8")))
    }
    assert {name for name in wanted if not resolves(name)} == set()


def test_knob_defaults_equal_those_of_the_installed_release(tmp_path: Path) -> None:
    assert call_in_fork(wrong_defaults, tmp_path) == {}
