"""How large the rooms of the house are, which it only prints; and what no test may do, which it refuses.

`python -m scripts.house` measures modules, imports, statements and comments of operator and runtime together, and by
itself of the operator's core. Then it reads the tests: their names, and whether they wait on time.
"""

import ast
import re
import sys
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path
from statistics import mean, median

ROOTS = (Path("operator"), Path("runtime"))
CORE = "gaudi_operator.core."
MANIFESTS = f"{CORE}children.manifests."
MOST_ENTRIES = 12
TOOLS = ("# noqa", "# type:")

FOLDERS = [each.parent for root in ROOTS for each in sorted(root.rglob("__init__.py"))]
FILES = {
    ".".join(path.relative_to(root).with_suffix("").parts): path
    for root in ROOTS
    for path in sorted(root.rglob("*.py"))
    if path.name != "__init__.py"
}
"""Modules by name. An `__init__.py` is none: it holds what is said of its folder."""

TESTS = Path("tests")
MOST_WORDS = 10
"""Of a test's name: it says the case and the outcome, and no story."""

WAITS = {
    "tests/unit/operator/shell/test_lease.py": "its sleeps are on a clock of its own, which takes no time",
    "tests/unit/operator/shell/test_reports.py": "its sleeps are on a clock of its own, which takes no time",
    "tests/unit/runtime/artifacts/sources/test_cache.py": "the hub client reads its variable once, at import",
    "tests/unit/runtime/http/openai_api/test_load.py": "looks at a condition that the engine has no event for",
    "tests/unit/runtime/runtime_process.py": "looks at conditions of another process",
}
"""Files of unit tests that may sleep, or set a constant of a module, each with the reason."""

TREES = {name: ast.parse(path.read_text()) for name, path in FILES.items()}
LINES = {name: len(path.read_text().splitlines()) for name, path in FILES.items()}


def imports(name: str) -> set[str]:
    """The modules of ours that a module imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return found & FILES.keys()


def statements(name: str) -> int:
    """Statements of a module; docstrings, and other constants that stand alone, are none."""
    found = (node for node in ast.walk(TREES[name]) if isinstance(node, ast.stmt))
    return sum(not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)) for each in found)


def comments(name: str) -> int:
    """Lines with a comment for people, not for tools."""
    with FILES[name].open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    return sum(each.type == tokenize.COMMENT and not each.string.startswith(TOOLS) for each in tokens)


def sizes(title: str, names: set[str]) -> str:
    """One line about modules; importers are counted in operator and runtime, and not in tests."""
    importers = Counter(each for name in FILES for each in imports(name))
    lines = [LINES[name] for name in names]
    return (
        f"{title}: {len(names)} modules, median {median(lines):.0f} lines, "
        f"{sum(importers[name] == 1 for name in names)} with one importer, {sum(map(statements, names))} statements, "
        f"{100 * sum(map(comments, names)) / sum(lines):.1f} % of {sum(lines)} lines with a comment\n"
    )


def order(title: str, names: set[str]) -> str:
    """One line about who imports whom: a module stands a floor above the highest one that it imports."""

    @cache
    def floor(name: str) -> int:
        return 1 + max((floor(each) for each in imports(name) & names), default=0)

    each = mean(len(imports(name)) for name in names)
    return f"{title}: {max(map(floor, names))} floors of imports, {each:.1f} imports of ours per module\n"


def full_folders() -> str:
    """One line about folders of many modules and folders."""
    entries = Counter(path.parent for path in (*FILES.values(), *FOLDERS))
    full = [f"{folder} {count}" for folder, count in sorted(entries.items()) if count > MOST_ENTRIES]
    return f"folders with more than {MOST_ENTRIES} entries: {', '.join(full) or 'none'}\n"


def long_names(path: Path, tree: ast.Module) -> list[str]:
    """A sentence for every test of a file whose name has too many words."""
    tests = (each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    # A figure such as 161_9 or 3_1_8b is one word.
    figures = {name: re.sub(r"\d+(_\d+)+", "0", name) for name in tests if name.startswith("test_")}
    words = {name: short.removeprefix("test_").count("_") + 1 for name, short in figures.items()}
    return [
        f"{path}: {name} has {count} words; say case and outcome in {MOST_WORDS}"
        for name, count in words.items()
        if count > MOST_WORDS
    ]


def waits(path: Path, tree: ast.Module) -> list[str]:
    """A sentence for every place of a file that waits on time, or that sets a constant of a module."""
    if path.as_posix() in WAITS:
        return []
    calls = (each for each in ast.walk(tree) if isinstance(each, ast.Call))
    return [
        f"{path}:{call.lineno}: {ast.unparse(call)} waits on time or sets a constant; wait on a condition, or pass a "
        "parameter"
        for call in calls
        if _sleeps(call) or _sets_a_constant(call)
    ]


def _sleeps(call: ast.Call) -> bool:
    # asyncio.sleep(0) waits for nothing: it lets other tasks run.
    return ast.unparse(call.func) in {"time.sleep", "asyncio.sleep"} and ast.unparse(call.args[0]) != "0"


def _sets_a_constant(call: ast.Call) -> bool:
    # Either setattr(module, "CONSTANT", value) or setattr("module.CONSTANT", value).
    texts = [each.value for each in call.args[:2] if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return ast.unparse(call.func) == "monkeypatch.setattr" and any(text.split(".")[-1].isupper() for text in texts)


def refused() -> list[str]:
    """What is wrong with the tests."""
    trees = {path: ast.parse(path.read_text()) for path in sorted(TESTS.rglob("*.py"))}
    names = [said for path, tree in trees.items() for said in long_names(path, tree)]
    return names + [said for path, tree in trees.items() if "unit" in path.parts for said in waits(path, tree)]


def main() -> None:
    """Print all figures. Exits with 1 where a test is refused."""
    core = {name for name in FILES if name.startswith(CORE)}
    upper = {name for name in core if not name.startswith(MANIFESTS)}
    sys.stdout.write(sizes("operator and runtime", set(FILES)) + sizes("core", core) + order("core", core))
    sys.stdout.write(order("core without children/manifests", upper) + full_folders())
    found = refused()
    sys.stderr.write("".join(f"{said}\n" for said in found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
