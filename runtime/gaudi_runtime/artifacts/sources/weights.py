"""Checks whether the safetensors files of a checkpoint are complete, by reading only their headers.

See docs/how-to/model-sources.md, Checks.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from gaudi_runtime.contract.text import safe_excerpt
from gaudi_runtime.errors import ModelNotFound, ModelUnreadable
from gaudi_runtime.units import format_bytes, plural

INDEX_FILE = "model.safetensors.index.json"
LENGTH_BYTES = 8
MOST_HEADER_BYTES = 100_000_000
"""The limit of the format."""
MOST_FILE_BYTES = 2**63 - 1
"""The largest size of a file in a file system."""
MOST_NAME = 255
"""The characters of a file's name that any file system supports."""
POINTER = b"version https://git-lfs"
"""The beginning of the pointer that git leaves if large files were not fetched."""


def check_weights(folder: Path, heartbeat: Callable[[], None] = lambda: None) -> None:
    """Check that every file of the index exists with all its tensors, and that no file is truncated.

    The check reads the header of each file (some KB to some MB), and calls `heartbeat` after each header. A folder
    without safetensors files passes, because only the engine can check other formats. Raises ModelNotFound for a
    missing file and ModelUnreadable for a damaged file. The message names the file.
    """
    try:
        index = _read_index(folder)
        for name in sorted(index or (file.name for file in folder.glob("*.safetensors"))):
            _check_file(folder / name, index.get(name, set()))
            heartbeat()  # reading a header on a slow volume may take seconds, and there may be a hundred of them
    except OSError as error:
        raise ModelUnreadable(
            f"{error.filename or folder} cannot be read: {error.strerror}. Check the volume and whether the user of "
            "the pod may read the file."
        ) from error


def _check_file(file: Path, expected_tensors: set[str]) -> None:
    if missing := expected_tensors - _read_tensors(file).keys():
        tensors_text = plural(len(missing), "tensor")
        raise ModelUnreadable(
            f"{file} lacks {tensors_text} that {INDEX_FILE} lists, such as {safe_excerpt(min(missing))}, because files "
            "of different revisions are mixed. Download all files of one revision."
        )


def _read_index(folder: Path) -> dict[str, set[str]]:
    """Return the tensors of the index by file. The result is empty if there is no index."""
    file = folder / INDEX_FILE
    if not file.exists():
        return {}
    try:
        weight_map = json.loads(file.read_bytes())["weight_map"]
        index: dict[str, set[str]] = {}
        for tensor, name in weight_map.items():
            index.setdefault(_validate_name(str(name)), set()).add(tensor)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ModelUnreadable(
            f"{file} is not an index of safetensors files. Download a new copy of the file."
        ) from error
    return index


def _validate_name(name: str) -> str:
    """Return the printable name of a file in the folder. Raises ValueError for any other path."""
    if len(name) > MOST_NAME or not name.isprintable() or name.startswith("/") or ".." in name.split("/"):
        raise ValueError(name)
    return name


def _read_tensors(file: Path) -> Mapping[str, Any]:
    """Return the entries of the header. Checks that the length of the file matches the entries."""
    if not file.exists():
        raise ModelNotFound(f"{file} is missing, but {INDEX_FILE} lists it. Download the complete checkpoint.")
    with file.open("rb") as content:
        length = _read_header_length(content, file)
        entries = _parse_header(content.read(length), file)
    size = file.stat().st_size
    expected_size = LENGTH_BYTES + length + max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    if size != expected_size:
        raise _damaged_error(
            file, f"the file has {format_bytes(size)} ({size} bytes), but its header requires {expected_size} bytes"
        )
    return entries


def _read_header_length(content: BinaryIO, file: Path) -> int:
    prefix = content.read(LENGTH_BYTES)
    length = int.from_bytes(prefix, "little")
    if POINTER.startswith(prefix) and len(prefix) == LENGTH_BYTES:
        raise _damaged_error(file, "the file is a git-lfs pointer instead of the weights")
    if len(prefix) < LENGTH_BYTES or length > MOST_HEADER_BYTES:
        raise _damaged_error(file, "the file does not begin with a header")
    return length


def _parse_header(text: bytes, file: Path) -> Mapping[str, Any]:
    try:
        entries = {name: entry for name, entry in json.loads(text).items() if name != "__metadata__"}
        if all(
            0 <= begin <= end <= MOST_FILE_BYTES for begin, end in (entry["data_offsets"] for entry in entries.values())
        ):
            return entries
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise _damaged_error(file, "the header cannot be parsed") from error
    raise _damaged_error(file, "the header is inconsistent")


def _damaged_error(file: Path, reason: str) -> ModelUnreadable:
    return ModelUnreadable(f"{file} is damaged: {reason}. Download a new copy of the file.")
