"""Mutation testing (`make mutants`): report the small changes of the code that no test detects.

MODULES selects targets or files by a part of their path (MODULES="core/rollout core/gate"). EVERY=5 tries every fifth
change of each file, and OFFSET=2 starts with the third change of each file. The same changes are therefore tried with
and without MODULES. ALIVE=1 tries only the survivors of the last run. JOBS is the number
of changes that are tried concurrently. TESTS replaces the tests of the targets with other test files.

Survivors are written to build/mutants/survivors.md. Unless ALIVE or TESTS is set, the figures of each complete target
go to figures.md, where later changes compare them with the same EVERY and OFFSET. excused.toml lists survivors that do
not matter to users, each with a reason. The exit code is 1 if more than 8 % survive, or if an entry of excused.toml
matches no change.
"""

import json
import os
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from tests.mutants.changes import Mutant, mutants
from tests.mutants.runner import ALIVE, MutantRunner, Verdict

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "mutants"
EXCUSED = Path(__file__).with_name("excused.toml")
FIGURES = Path(__file__).with_name("figures.md")
MOST_ALIVE_PERCENT = 8

CORE = ("tests/unit/operator/core",)
SHELL = ("tests/unit/operator/shell",)
GROUP = ("tests/unit/runtime/group", "tests/unit/runtime/engine_protocol")
SERVE = tuple(
    f"tests/unit/runtime/serve/test_{name}.py" for name in ("in_this_process", "config_file", "manual_limits")
)
"""The other tests of the folder start processes, in which the code is unchanged."""
TARGETS = {
    "operator/gaudi_operator/core/pods": CORE,
    "operator/gaudi_operator/core/rollout": CORE,
    "operator/gaudi_operator/core/children": CORE,
    "operator/gaudi_operator/core/admission": CORE,
    "operator/gaudi_operator/core/classes.py": CORE,
    "operator/gaudi_operator/core/gate": CORE,
    "operator/gaudi_operator/core/problems": CORE,
    "operator/gaudi_operator/core/rendering": CORE,
    "operator/gaudi_operator/shell/watching": SHELL,
    "operator/gaudi_operator/shell/writing/writer.py": SHELL,
    "operator/gaudi_operator/shell/lease.py": SHELL,
    "runtime/gaudi_runtime/buckets": ("tests/unit/runtime/buckets", "tests/unit/runtime/planning"),
    "runtime/gaudi_runtime/planning": ("tests/unit/runtime/planning",),
    "runtime/gaudi_runtime/artifacts/sources": ("tests/unit/runtime/artifacts/sources",),
    "runtime/gaudi_runtime/artifacts/recipe_cache": ("tests/unit/runtime/artifacts/recipe_cache",),
    "runtime/gaudi_runtime/group": GROUP,
    "runtime/gaudi_runtime/engine_protocol/messages.py": GROUP,
    "runtime/gaudi_runtime/http/openai_api": ("tests/unit/runtime/http/openai_api",),
    "runtime/gaudi_runtime/engines/vllm": ("tests/unit/runtime/engines/vllm",),
    "runtime/gaudi_runtime/warmup": ("tests/unit/runtime/warmup", "tests/unit/runtime/engines/vllm/workers"),
    "runtime/gaudi_runtime/report": ("tests/unit/runtime/report",),
    "runtime/gaudi_runtime/process": ("tests/unit/runtime/process",),
    "runtime/gaudi_runtime/serve.py": SERVE,
}
"""The modules whose faults would hurt users most, each with the tests that should notice a change."""

Identity = tuple[str, str, str, str]
"""A change, identified by its file, its function, the removed lines and the added lines."""

console = Console(highlight=False)


@dataclass
class Count:
    """The verdicts by file, and the surviving mutants."""

    total: int
    verdicts: dict[Path, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    alive: list[Mutant] = field(default_factory=list)
    excused: list[tuple[Mutant, str]] = field(default_factory=list)
    excuses: dict[Identity, str] = field(default_factory=dict)

    def record(self, mutant: Mutant, verdict: Verdict) -> None:
        """Count a verdict, and print progress after every 50 verdicts."""
        verdict_name: str = verdict
        if verdict in ALIVE:
            reason = self.excuses.get(identity(mutant))
            if reason is None:
                self.alive.append(mutant)
                write(self)
            else:
                verdict_name = "excused"
                self.excused.append((mutant, reason))
        self.verdicts[mutant.path][verdict_name] += 1
        done = sum(counter.total() for counter in self.verdicts.values())
        if done % 50 == 0 or done == self.total:
            console.print(f"{done} of {self.total}, {len(self.alive)} alive; {name(mutant.path)}")


def main() -> int:
    """Try all selected changes, and return 1 if too many survive."""
    some = os.environ.get("MODULES", "").split()
    paths = list(select_modules(some))
    if not paths:
        sys.exit(f"MODULES names a part of the path of one of: {', '.join(TARGETS)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    every, offset = int(os.environ.get("EVERY", "1")), int(os.environ.get("OFFSET", "0"))
    by_file = [list(mutants(path)) for path, _ in paths]
    found = [mutant for each in by_file for mutant in each]
    excuses = read_excuses()
    if unmatched := list(unmatched_excuses(excuses, {name(path) for path, _ in paths}, found)):
        sys.exit("\n".join(unmatched))
    found = [mutant for each in by_file for mutant in each[offset::every]]
    if os.environ.get("ALIVE"):
        lived = {tuple(each) for each in json.loads((FOLDER / "alive.json").read_text())}
        functions = {each[:2] for each in lived}
        found = [mutant for mutant in found if (name(mutant.path), mutant.function) in functions]
        found = [mutant for mutant in found if identity(mutant) in lived]
    count = Count(len(found), excuses=excuses)
    if named := tuple(os.environ.get("TESTS", "").split()):
        paths = [(path, named) for path, _ in paths]
    for tests in dict.fromkeys(tests for _, tests in paths):
        ours = {path for path, each in paths if each == tests}
        try_mutants(tests, [mutant for mutant in found if mutant.path in ours], count, fresh=not some)
    write(count)
    if not named and not os.environ.get("ALIVE"):
        write_figures(count, {path for path, _ in paths}, every, offset)
    return report(count)


def select_modules(parts: Sequence[str]) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield the files to change, each with the tests that should detect the changes."""
    for target, tests in TARGETS.items():
        for path in sorted((ROOT / target).rglob("*.py")) if (ROOT / target).is_dir() else [ROOT / target]:
            if not parts or any(part.rstrip("/") in name(path) for part in parts):
                yield path, tests


def try_mutants(tests: tuple[str, ...], found: Sequence[Mutant], count: Count, *, fresh: bool) -> None:
    """Try the changes with these tests.

    With `fresh`, also measure test files that have not changed since the last run.
    """
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(FOLDER / "hypothesis")
    arguments = ["-qq", "--capture=no", "-p", "no:cacheprovider", "-p", "no:xdist", "--override-ini=addopts="]
    arguments += [
        "--import-mode=importlib",
        "--hypothesis-seed=0",
        "--snapshot-warn-unused",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    ]
    console.print(f"{len(found)} changes; collecting {' '.join(tests)}")
    # Hash the names of the tests, because TESTS may name many files and the file name would become too long.
    memory = FOLDER / f"{sha256(' '.join(tests).encode()).hexdigest()[:16]}.json"
    paths = sorted({*(path for path, each in select_modules([]) if each == tests), *(mutant.path for mutant in found)})
    jobs = int(os.environ.get("JOBS", os.cpu_count() or 2))
    code = pytest.main([*arguments, *tests], [MutantRunner(paths, found, jobs, count.record, memory, fresh)])
    if code:
        sys.exit(f"pytest ended with {code!r}")


def read_excuses() -> dict[Identity, str]:
    """Return the reason of each excused survivor, by file, function, removed lines and added lines."""
    entries = tomllib.loads(EXCUSED.read_text()).get("survivor", [])
    return {(each["file"], each["function"], each["was"], each["became"]): each["why"] for each in entries}


def unmatched_excuses(excuses: Iterable[Identity], files: set[str], found: Iterable[Mutant]) -> Iterator[str]:
    """Yield a sentence for each excuse that matches no change.

    An excuse is unmatched if its file is in `files` and no mutant in `found` matches, or if its file is in no target.
    """
    known = {name(path) for path, _ in select_modules([])}
    unmatched = {each for each in excuses if each[0] in files or each[0] not in known}
    for mutant in found:
        # Render a change only if an excuse for its function is still unmatched, because rendering is slow.
        if any(each[:2] == (name(mutant.path), mutant.function) for each in unmatched):
            unmatched.discard(identity(mutant))
    for file, function, _, became in sorted(unmatched):
        yield (
            f"{name(EXCUSED)}: the entry of {file} {function} with `{became}` matches no change. Delete it, or correct "
            "it if the code has changed."
        )


def name(path: Path) -> str:
    """Return the path relative to the repository."""
    return str(path.relative_to(ROOT))


def identity(mutant: Mutant) -> Identity:
    """Return the parts of a mutant that do not depend on line numbers."""
    return (name(mutant.path), mutant.function, *mutant.change)


def write(count: Count) -> None:
    """Write the survivors as Markdown, and as JSON for the next run with ALIVE=1."""
    alive = sorted(count.alive, key=lambda mutant: (name(mutant.path), mutant.line))
    (FOLDER / "alive.json").write_text(json.dumps([identity(mutant) for mutant in alive], indent=1))
    parts = [f"# {len(alive)} changes that no test noticed\n"]
    for mutant in alive:
        parts.append(f"## {name(mutant.path)} {mutant.function}\n```diff\n" + "\n".join(mutant.diff) + "\n```\n")
    parts.append(f"# {len(count.excused)} that may live\n")
    parts += [
        f"- {name(mutant.path)} {mutant.function}: `{mutant.change[1]}`: {why}\n" for mutant, why in count.excused
    ]
    (FOLDER / "survivors.md").write_text("\n".join(parts))


def write_figures(count: Count, selected: Set[Path], every: int, offset: int) -> None:
    """Write the rows of all targets whose files were all tried, and keep the rows of other targets."""
    rows = dict(line[2:].split(" | ", 1) for line in FIGURES.read_text().splitlines() if line.startswith("| "))
    files: dict[str, set[Path]] = {target: {path for path, _ in select_modules([target])} for target in TARGETS}
    for target in [target for target in TARGETS if files[target] <= selected]:
        counter = sum((count.verdicts[path] for path in files[target]), Counter[str]())
        tried, killed, timed_out, excused, alive, percentage = figures(counter)
        noticed = int(killed) + int(timed_out)
        rows[target] = f"{tried} | {noticed} | {excused} | {alive} | {percentage} | {every} | {offset} |"
    title, _, _ = FIGURES.read_text().partition("| ")
    kept = ["target", "---", *(target for target in TARGETS if target in rows)]
    FIGURES.write_text(title + "".join(f"| {name} | {rows[name]}\n" for name in kept))


def report(count: Count) -> int:
    """Print a table by module, and return the exit code."""
    table = Table(
        "module below its package",
        *(name for name in ("mutants", "killed", "timed out", "excused", "alive", "alive %")),
    )
    total: Counter[str] = Counter()
    for path, counter in sorted(count.verdicts.items()):
        table.add_row(name(path).split("/", 2)[2], *figures(counter))
        total += counter
    table.add_section()
    table.add_row("all", *figures(total))
    console.print(table)
    console.print(f"Survivors: {name(FOLDER / 'survivors.md')}")
    return int(percent(total) > MOST_ALIVE_PERCENT)


def figures(counter: Counter[str]) -> list[str]:
    """Return one row of the table. A change that results in an invalid function does not count."""
    tried = counter.total() - counter[Verdict.IMPOSSIBLE]
    alive = sum(counter[each] for each in ALIVE)
    counts = (tried, counter[Verdict.KILLED], counter[Verdict.TIMED_OUT], counter["excused"], alive)
    return [*map(str, counts), f"{percent(counter):.1f}"]


def percent(counter: Counter[str]) -> float:
    """Return the percentage of survivors."""
    tried = counter.total() - counter[Verdict.IMPOSSIBLE]
    return 100 * sum(counter[each] for each in ALIVE) / tried if tried else 0


if __name__ == "__main__":
    sys.exit(main())
