"""A shared folder and pods with the sim engine that use the folder, in simulated time."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from gaudi_runtime.artifacts.recipe_cache.entry import RecipeEntry, hash_entry_files
from gaudi_runtime.artifacts.recipe_cache.manifest import RecipeManifest
from gaudi_runtime.artifacts.recipe_cache.revisions import RecipeRevisionId, revision_mark_name
from gaudi_runtime.contract.config import RuntimeConfig, SharedRecipesConfig
from gaudi_runtime.contract.report import SharedRecipesReport, WarmupReport
from gaudi_runtime.engine_protocol.engine import RecipeKey
from gaudi_runtime.engines.sim.engine import SimEngine
from gaudi_runtime.warmup.journal import NOTHING_KNOWN
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.warmup.virtual import VirtualClock, start_on_virtual_clock

PLANNED = 10


class Site:
    """A shared folder, and pods with local disks."""

    def __init__(self, folder: Path) -> None:
        self.shared, self._disks = folder / "shared", folder / "disks"
        self.kept_revisions = folder / "kept.json"
        self.shared.mkdir()

    def config(self, pod: str, limit: int = 10**9, seed: str | None = None, **parts: Any) -> RuntimeConfig:
        """Return the configuration of a runtime that compiles to the disk of `pod`."""
        shared = SharedRecipesConfig(
            path=str(self.shared),
            seed=seed,
            limit_bytes=limit,
            max_age_seconds=86_400,
            kept_revisions=str(self.kept_revisions),
        )
        local = {"recipe_cache_dir": str(self.disk(pod)), "shared_recipes": shared}
        config = sim_config({"compileSeconds": 10, "recipeSeconds": 1, "captureSeconds": 1})
        return config.model_copy(update=local | parts)

    def disk(self, pod: str) -> Path:
        """Return the folder that `pod` compiles into."""
        return self._disks / pod

    def start(self, pod: str, **parts: Any) -> WarmupReport:
        """Start `pod` in simulated time, and return its report."""
        return start_on_virtual_clock(self.config(pod, **parts), VirtualClock())

    def key(self) -> RecipeKey:
        """The recipe key, which is the same for all starts."""
        return SimEngine(self.config("any")).recipe_key()

    def objects(self) -> list[Path]:
        """The files in the shared folder."""
        return sorted(self.shared.glob("*/objects/*"))

    def mark(self, entry: RecipeEntry, user: RecipeRevisionId | None = None) -> Path:
        """Return the mark file of `entry` for a start by `user`."""
        return self.shared / revision_mark_name(entry.key.digest, user)

    def put(self, name: str, content: bytes, days_ago: float, *users: RecipeRevisionId) -> RecipeEntry:
        """Write an entry of another key, last used `days_ago` by starts of `users`, or by a start without a user."""
        source = self._disks / f"of-{name}"
        source.mkdir(parents=True)
        (source / "recipe").write_bytes(content)
        entry = RecipeEntry(self.shared, replace(self.key(), model=name))
        files = hash_entry_files(source, lambda _: False, lambda: None)
        entry.write(RecipeManifest(files, NOTHING_KNOWN), source, lambda: None, overwrite=False)
        for user in users or (None,):
            mark = self.mark(entry, user)
            mark.touch()
            used = mark.stat().st_mtime - days_ago * 86_400
            os.utime(mark, (used, used))
        return entry


def cached(report: WarmupReport) -> int:
    """Return the number of planned buckets whose recipe was cached."""
    return report.prompt.cached + report.decode.cached


def shared_recipes(report: WarmupReport) -> SharedRecipesReport:
    """Return the report's part about shared recipes."""
    assert report.shared_recipes is not None
    return report.shared_recipes
