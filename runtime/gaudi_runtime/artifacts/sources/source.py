"""What a fetch asks of a place that holds models. `hub.py` is one; an object store would be another."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from gaudi_runtime.artifacts.sources.listing import Listing


class Source(Protocol):
    """One repository, or prefix, at one revision. Every failure is a RuntimeStartError with a sentence."""

    @property
    def repo(self) -> str:
        """Name of what is fetched; its folder on disk is named after it."""

    @property
    def revision(self) -> str:
        """Branch, tag or commit."""

    def listing(self) -> Listing:
        """The files that the revision has now, each with size and checksum, under an id that stands for just these.

        Raises HubUnreachable for what another try may mend.
        """

    def content(self, commit: str, path: str, offset: int) -> AbstractContextManager[tuple[int, Iterator[bytes]]]:
        """The bytes of one file from `offset` on, and the offset that they really begin at; raises as `listing`."""
