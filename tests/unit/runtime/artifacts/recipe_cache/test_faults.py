"""Full disks, read-only volumes, killed processes, and pods that start together."""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from gaudi_runtime.artifacts.recipe_cache.cache import RecipeCache
from gaudi_runtime.artifacts.recipe_cache.entry import RecipeEntry
from gaudi_runtime.contract.config import SharedRecipesConfig
from gaudi_runtime.contract.report import SharedRecipesOutcome, SharedRecipesReport
from gaudi_runtime.engine_protocol.engine import RecipeKey
from gaudi_runtime.report.report_board import ReportBoard
from tests.unit.runtime.configs import sim_config

KEY = RecipeKey(software="sim", card="gaudi2", model="llama", dtype="auto", parallelism="tensor 1")
HIT, SEEDING, SEEDED, MISS = SharedRecipesOutcome
LARGE = bytes(range(256)) * 4096

SEEDER = """
import json, sys
from pathlib import Path
from gaudi_runtime.engine_protocol.engine import RecipeKey
from gaudi_runtime.artifacts.recipe_cache.cache import _try_write_lock
from gaudi_runtime.artifacts.recipe_cache.entry import RecipeEntry, hash_entry_files
from gaudi_runtime.artifacts.recipe_cache.manifest import RecipeManifest
from gaudi_runtime.warmup.journal import NOTHING_KNOWN

shared, disk, key = Path(sys.argv[1]), Path(sys.argv[2]), RecipeKey(**json.loads(sys.argv[3]))
manifest = RecipeManifest(hash_entry_files(disk, lambda _: False, lambda: None), NOTHING_KNOWN)
pieces = iter(range(1))

def stop_in_the_middle():
    if next(pieces, None) is None:
        print("in the middle", flush=True)
        sys.stdin.read()

with _try_write_lock(shared):
    RecipeEntry(shared, key).write(manifest, disk, stop_in_the_middle, overwrite=False)
"""


class Pod:
    """A pod with a local disk and a shared folder."""

    def __init__(self, shared: Path, disk: Path) -> None:
        self.disk = disk
        given = SharedRecipesConfig(path=str(shared), limit_bytes=10**9, max_age_seconds=60)
        config = sim_config().model_copy(update={"recipe_cache_dir": str(disk), "shared_recipes": given})
        self._board = ReportBoard("0" * 64)
        self._cache = RecipeCache(config, KEY, self._board, threading.Event())

    def take(self) -> SharedRecipesReport:
        self._cache.restore()
        return self._report()

    def compile(self, content: bytes = LARGE) -> None:
        """Compile a recipe, as an engine does."""
        (self.disk / "code").mkdir(parents=True, exist_ok=True)
        (self.disk / "code" / "recipe").write_bytes(content)

    def publish(self) -> SharedRecipesReport:
        self._cache.publish()
        return self._report()

    def _report(self) -> SharedRecipesReport:
        found = self._board.report().shared_recipes
        assert found is not None
        return found


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


@pytest.fixture
async def seeded(shared: Path, tmp_path: Path) -> Path:
    """A shared folder that a pod has filled."""
    seeder = Pod(shared, tmp_path / "seeder")
    seeder.take()
    seeder.compile()
    assert seeder.publish().outcome is SEEDED
    return shared


@contextmanager
def full_disk() -> Iterator[None]:
    """Limit the size of new files to a few pages. The kernel then rejects writes as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def files(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]


def objects(shared: Path) -> list[Path]:
    return list(shared.glob("*/objects/*"))


def kill_in_the_middle(shared: Path, disk: Path) -> None:
    """Publish the recipes of `disk` in another process, and kill this process after the first piece."""
    command = [sys.executable, "-c", SEEDER, str(shared), str(disk), json.dumps(asdict(KEY))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as seeder:
        assert seeder.stdout is not None
        assert seeder.stdout.readline() == b"in the middle\n"
        os.kill(seeder.pid, signal.SIGKILL)


async def test_full_pod_disk_is_reported_and_leaves_no_partial_files(seeded: Path, tmp_path: Path) -> None:
    pod = Pod(seeded, tmp_path / "pod")
    with full_disk():
        found = pod.take()
    assert found.outcome is SEEDING
    assert "are ignored: [Errno 27] File too large" in (found.reason or "")
    assert files(pod.disk) == []


async def test_full_volume_is_reported_and_keeps_no_partial_files(shared: Path, tmp_path: Path) -> None:
    pod = Pod(shared, tmp_path / "pod")
    pod.take()
    pod.compile()
    with full_disk():
        found = pod.publish()
    assert found.outcome is MISS
    assert f"Recipes cannot be written into {shared}: [Errno 27] File too large." in (found.reason or "")
    assert [each for each in files(shared) if each.stat().st_size] == []


async def test_next_pod_seeds_a_volume_that_was_full(shared: Path, tmp_path: Path) -> None:
    first, second, third = (Pod(shared, tmp_path / name) for name in "abc")
    first.take()
    first.compile()
    with full_disk():
        first.publish()
    second.take()
    second.compile()
    assert (second.publish().outcome, third.take().outcome) == (SEEDED, HIT)


async def test_recipes_of_a_read_only_volume_are_used(seeded: Path, tmp_path: Path) -> None:
    for each in (seeded / "lock", seeded / f"{KEY.digest}.use"):
        each.unlink()
        each.mkdir()  # Opening it for writing fails, as on a volume that is mounted read-only.
    pod = Pod(seeded, tmp_path / "pod")
    assert pod.take().outcome is HIT
    found = pod.publish()
    assert found.outcome is HIT
    assert f" {seeded}: " in (found.reason or "")
    assert (pod.disk / "code" / "recipe").read_bytes() == LARGE


@pytest.mark.parametrize("at", [0, len(LARGE) // 2, len(LARGE) - 1])
async def test_flipped_bit_is_detected_and_repaired_by_the_next_pod(seeded: Path, tmp_path: Path, at: int) -> None:
    (stored,) = objects(seeded)
    content = bytearray(LARGE)
    content[at] ^= 1
    stored.write_bytes(content)
    pod = Pod(seeded, tmp_path / "pod")
    found = pod.take()
    assert found.outcome is SEEDING
    assert "code/recipe does not match its checksum in the manifest" in (found.reason or "")
    pod.compile()
    assert pod.publish().outcome is SEEDED
    assert stored.read_bytes() == LARGE


async def test_two_pods_that_seed_concurrently_leave_one_complete_entry(shared: Path, tmp_path: Path) -> None:
    one, two, later = (Pod(shared, tmp_path / name) for name in ("one", "two", "later"))
    assert [each.take().outcome for each in (one, two)] == [SEEDING, SEEDING]
    one.compile(b"of the first")
    two.compile(b"of the second")
    (two.disk / "code" / "another").write_text("of the second")
    assert [each.publish().outcome for each in (one, two)] == [SEEDED, SEEDED]
    assert later.take().outcome is HIT
    found = {each.name: each.read_text() for each in (later.disk / "code").iterdir()}
    assert found == {"recipe": "of the first", "another": "of the second"}


async def test_pod_killed_while_seeding_leaves_no_entry(shared: Path, tmp_path: Path) -> None:
    victim = Pod(shared, tmp_path / "victim")
    victim.compile()
    kill_in_the_middle(shared, victim.disk)
    assert RecipeEntry(shared, KEY).read_manifest() is None
    (_half,) = objects(shared)  # Only temporary files remain, under names that no reader uses.
    later, last = Pod(shared, tmp_path / "later"), Pod(shared, tmp_path / "last")
    assert later.take().outcome is SEEDING
    later.compile()
    assert (later.publish().outcome, last.take().outcome) == (SEEDED, HIT)
    assert len(objects(shared)) == 1
