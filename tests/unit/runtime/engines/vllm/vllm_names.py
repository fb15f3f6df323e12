"""The names that the adapter imports from vLLM, read from the sources of a release without importing it.

The following command writes the record of the releases in these folders, which requirements/another-vllm creates:

python -m tests.unit.runtime.engines.vllm.vllm_names RELEASE=SITE_PACKAGES... > tests/data/vllm_names.json
"""

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from gaudi_runtime.engines.vllm.moved_modules import FROM_0_29, TO_0_28

ADAPTER = Path(__file__).parents[5] / "runtime" / "gaudi_runtime" / "engines" / "vllm"
MOVED = {
    (getattr(layout, where), name)
    for layout in (TO_0_28, FROM_0_29)
    for where, name in (("arguments", "make_arg_parser"), ("app", "build_app"), ("state", "init_app_state"))
}
CALLED = {
    ("vllm.engine.arg_utils", "EngineArgs.create_engine_config"),
    ("vllm.engine.arg_utils", "EngineArgs.from_cli_args"),
    ("vllm.model_executor.models.registry", "_run_in_subprocess"),
    ("vllm.v1.engine.async_llm", "AsyncLLM.from_engine_args"),
    ("vllm.v1.engine.async_llm", "AsyncLLM.collective_rpc"),
    ("vllm.v1.engine.async_llm", "AsyncLLM.get_supported_tasks"),
    ("vllm.v1.engine.core_client", "AsyncMPClient._call_utility_async"),
    ("vllm.v1.executor.multiproc_executor", "MultiprocExecutor.__init__"),
}
"""The attributes that vllm_imports.py and cores.py also call or replace, by their class."""

Names = dict[str, dict[str, list[str] | None]]
"""The parameters of the functions and named tuples of each module; None for other names."""


def imported_names() -> set[tuple[str, str]]:
    """Return module and name of every `from vllm... import name` in the adapter."""
    found = set()
    for file in ADAPTER.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "vllm":
                found |= {(str(node.module), each.name) for each in node.names}
    return found


def names_in(site_packages: Path) -> Names:
    """Return the names that the adapter uses and the release in this folder has, by module."""
    names: Names = {}
    for module, name in sorted(imported_names() | MOVED | CALLED):
        path = site_packages / module.replace(".", "/")
        if (path / name).with_suffix(".py").is_file():  # The name is a module of a package.
            names.setdefault(module, {})[name] = None
        file = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
        if not file.is_file():
            continue
        found = list(_found(ast.parse(file.read_text(encoding="utf-8")), name.split(".")))
        if found:
            names.setdefault(module, {})[name] = _parameters(found[-1])
    return names


def _found(scope: ast.Module | ast.ClassDef, path: list[str]) -> Iterator[ast.stmt]:
    for node in scope.body:
        if getattr(node, "name", None) == path[0]:
            yield from _found(node, path[1:]) if path[1:] and isinstance(node, ast.ClassDef) else (node,)


def _parameters(node: ast.stmt) -> list[str] | None:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = node.args
        optional = len(arguments.args) - len(arguments.defaults)
        parameters = [each.arg + "=" * (at >= optional) for at, each in enumerate(arguments.args)]
        parameters += [
            each.arg + "=" * (default is not None)
            for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        ]
        return [each for each in parameters if each not in ("self", "cls")]
    if isinstance(node, ast.ClassDef) and [ast.unparse(each) for each in node.bases] == ["NamedTuple"]:
        return [ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)]
    return None


if __name__ == "__main__":
    record = {release: names_in(Path(folder)) for release, _, folder in (each.partition("=") for each in sys.argv[1:])}
    modules = [
        f' "{release}": {{\n'
        + ",\n".join(f'  "{module}": {json.dumps(each)}' for module, each in names.items())
        + "\n }"
        for release, names in record.items()
    ]
    print("{\n" + ",\n".join(modules) + "\n}")  # noqa: T201 - the output of the program
