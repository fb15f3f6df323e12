"""Why a worker could not start: vLLM says only that a child failed, so the worker leaves the reason in a file."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel

MOST_CHARACTERS = 1500


class StartFailure(BaseModel):
    """`step` is what the worker was at, `kind` the type of the error."""

    step: str
    kind: str
    message: str


@contextmanager
def recorded(file: str, step: str) -> Iterator[None]:
    """Write the error of the block to `file`, unless one is there already, and raise it on."""
    try:
        yield
    except BaseException as error:
        kind = type(error).__name__
        _write_first(Path(file), StartFailure(step=step, kind=kind, message=str(error)[:MOST_CHARACTERS]))
        raise


def read_failure(file: Path) -> StartFailure | None:
    """The first failure of all workers, None when there is none."""
    return StartFailure.model_validate_json(file.read_text()) if file.exists() else None


def _write_first(file: Path, failure: StartFailure) -> None:
    """By a link, which only the first can make: ranks fail together."""
    own = file.with_suffix(f".{os.getpid()}")
    own.write_text(failure.model_dump_json())
    try:
        file.hardlink_to(own)
    except FileExistsError:
        pass
    finally:
        own.unlink()
