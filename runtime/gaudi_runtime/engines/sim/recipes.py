"""The recipe cache of the sim engine: an empty file per recipe, as a real one has a file with code."""

from contextlib import suppress
from pathlib import Path

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engines.protocol import RecipeKey


class SimRecipes:
    """Recipes of one key below `folder`; without a folder none is kept."""

    def __init__(self, folder: str | None, key: RecipeKey) -> None:
        self._folder = Path(folder) / f"sim-{key.digest}" if folder else None

    def holds(self, phase: BucketPhase, bucket: Bucket) -> bool:
        """Whether this shape was compiled before, in this or an earlier life of the container."""
        return self._folder is not None and self._file(self._folder, phase, bucket).exists()

    def keep(self, phase: BucketPhase, bucket: Bucket) -> None:
        """This shape is compiled now. A folder that cannot be written only costs the next start its time."""
        if self._folder is not None:
            with suppress(OSError):
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file(self._folder, phase, bucket).touch()

    def _file(self, folder: Path, phase: BucketPhase, bucket: Bucket) -> Path:
        return folder / f"{phase}-{bucket.batch_size}-{bucket.query_len}-{bucket.num_blocks}"
