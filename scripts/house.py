"""Rules that no other linter checks: the length of files, the names of tests, and sleeps in tests.

`python -m scripts.house` prints one sentence for each violation. The exit code is 1 if there are violations.
"""

import ast
import re
import sys
from pathlib import Path

TESTS = Path("tests")
ROOTS = (Path("operator"), Path("runtime"), Path("localcluster"), Path("demo"), Path("scripts"), TESTS)

MOST_LINES = 400
"""The maximum number of lines of a Python file. 100 to 350 lines are normal."""

MOST_WORDS = 10
"""The maximum number of words in a test's name, which contains the case and the outcome."""

WAITS = {
    "tests/unit/operator/shell/test_lease.py": "its sleeps use a fake clock, which takes no time",
    "tests/unit/operator/shell/polling/test_reports.py": "its sleeps use a fake clock, which takes no time",
    "tests/unit/runtime/artifacts/sources/test_cache.py": "the hub client reads its variable once, at import",
    "tests/unit/runtime/http/openai_api/test_load.py": "polls a condition that the engine has no event for",
    "tests/unit/runtime/runtime_process.py": "polls conditions of another process",
}
"""Files of unit tests that may sleep or set a constant of a module, with the reasons."""


def long_files(lines: dict[Path, int]) -> list[str]:
    """Return a sentence for every file with too many lines."""
    return [
        f"{path}:{MOST_LINES + 1}: the file has {count} lines, more than {MOST_LINES}. Move one of its concepts into "
        "another file"
        for path, count in lines.items()
        if count > MOST_LINES
    ]


def long_names(path: Path, tree: ast.Module) -> list[str]:
    """Return a sentence for every test of a file whose name has too many words."""
    names = (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    # A figure such as 161_9 or 3_1_8b is one word.
    short_names = {name: re.sub(r"\d+(_\d+)+", "0", name) for name in names if name.startswith("test_")}
    word_counts = {name: short.removeprefix("test_").count("_") + 1 for name, short in short_names.items()}
    return [
        f"{path}: {name} has {count} words. State case and outcome in {MOST_WORDS}"
        for name, count in word_counts.items()
        if count > MOST_WORDS
    ]


def find_waits(path: Path, tree: ast.Module) -> list[str]:
    """Return a sentence for every call in a file that sleeps or sets a constant of a module."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [
        f"{path}:{call.lineno}: {ast.unparse(call)} waits on time or sets a constant. Wait on a condition, or pass a "
        "parameter"
        for call in calls
        if _sleeps(call) or _sets_constant(call)
    ]


def _sleeps(call: ast.Call) -> bool:
    # asyncio.sleep(0) does not wait. It only lets other tasks run.
    return ast.unparse(call.func) in {"time.sleep", "asyncio.sleep"} and ast.unparse(call.args[0]) != "0"


def _sets_constant(call: ast.Call) -> bool:
    # Either setattr(module, "CONSTANT", value) or setattr("module.CONSTANT", value).
    texts = [arg.value for arg in call.args[:2] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    return ast.unparse(call.func) == "monkeypatch.setattr" and any(text.split(".")[-1].isupper() for text in texts)


def check_waits(file_waits: dict[str, list[str]]) -> list[str]:
    """Return the waits that WAITS does not allow, and a sentence for every entry of WAITS without a wait."""
    unused = [f"{name} waits on nothing: delete its entry in WAITS" for name in WAITS if not file_waits.get(name)]
    return [sentence for name, sentences in file_waits.items() if name not in WAITS for sentence in sentences] + unused


def violations() -> list[str]:
    """Return a sentence for every violation in this repository."""
    texts = {path: path.read_text() for root in ROOTS for path in sorted(root.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items() if path.is_relative_to(TESTS)}
    sentences = [sentence for path, tree in trees.items() for sentence in long_names(path, tree)]
    by_file = {path.as_posix(): find_waits(path, tree) for path, tree in trees.items() if "unit" in path.parts}
    return long_files({path: len(text.splitlines()) for path, text in texts.items()}) + sentences + check_waits(by_file)


def main() -> None:
    """Print the violations. Exits with 1 if there are violations."""
    sentences = violations()
    sys.stderr.write("".join(f"{sentence}\n" for sentence in sentences))
    sys.exit(1 if sentences else 0)


if __name__ == "__main__":
    main()
