"""The listing of a repository at one commit, and the selection of the files that a runtime needs. Pure."""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from gaudi_runtime.errors import ModelUnreadable, UnsupportedModel

OTHER_WEIGHTS = frozenset({".bin", ".ckpt", ".gguf", ".h5", ".msgpack", ".onnx", ".ot", ".pt", ".pth", ".tflite"})
"""The suffixes of the same weights for other software; engines read only safetensors."""
WEIGHTS = ".safetensors"
ORIGINAL_NAME, ORIGINAL_FOLDER = "consolidated", "original"
"""The name and the folder of files that repeat the weights in the layout of the model's authors."""

COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class ListedFile:
    """A file of a repository, with `size` in bytes. `blob_id` (git's SHA-1) is used if the hub has no `sha256`."""

    path: str
    size: int
    blob_id: str
    sha256: str | None = None

    @property
    def checksum(self) -> str:
        """The checksum that the hub states."""
        return self.sha256 or self.blob_id


@dataclass(frozen=True)
class Listing:
    """All files of a repository at `commit` (40 hex digits)."""

    commit: str
    files: tuple[ListedFile, ...]


def is_pinned_listing(revision: str) -> bool:
    """Return True if the revision is a commit. The listing of a commit never changes."""
    return COMMIT.fullmatch(revision) is not None


def select_listed_files(repo: str, listing: Listing) -> tuple[ListedFile, ...]:
    """Return the files of a repository to fetch, largest first, without weights in other formats.

    Raises UnsupportedModel if there are no safetensors files, and ModelUnreadable for a path outside the folder.
    """
    for file in listing.files:
        _check_inside_folder(repo, file.path)
    weight_files = [file for file in listing.files if file.path.endswith(WEIGHTS)]
    if not weight_files:
        raise UnsupportedModel(f"Repository {repo} has no safetensors files. Choose a repository with such files.")
    skip_original = any(not _is_original(file) for file in weight_files)
    candidates = (file for file in listing.files if not _is_other_format(PurePosixPath(file.path)))
    selected = (file for file in candidates if not (skip_original and _is_original(file)))
    return tuple(sorted(selected, key=lambda file: (-file.size, file.path)))


def _is_other_format(path: PurePosixPath) -> bool:
    # Large ONNX models keep their weights in files such as `model.onnx_data` and `model.onnx.data`.
    return path.suffix in OTHER_WEIGHTS or ".onnx" in path.name


def _is_original(file: ListedFile) -> bool:
    path = PurePosixPath(file.path)
    repeats = path.name.startswith(ORIGINAL_NAME) or path.parts[0] == ORIGINAL_FOLDER
    return repeats and path.suffix == WEIGHTS


def _check_inside_folder(repo: str, path: str) -> None:
    parsed_path = PurePosixPath(path)
    if parsed_path.is_absolute() or ".." in parsed_path.parts or not parsed_path.parts:
        raise ModelUnreadable(f"Repository {repo} lists the file {path!r}, which is outside the repository's folder.")
