"""The revision of this pod, and the revisions of its resource that can still run."""

import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from gaudi_runtime.contract.config import KeptRevisions
from gaudi_runtime.contract.ports import REVISION_VARIABLE

log = logging.getLogger(__name__)

_NAME = re.compile(r"[0-9a-z]{1,63}")

_MARK = re.compile(r"([0-9a-f]{16})(?:\.([0-9A-Za-z-]+)\.([0-9a-z]+))?\.use")


@dataclass(frozen=True)
class RecipeRevisionId:
    """A user of an entry of recipes: a revision, identified by the uid of its resource and its name."""

    resource: str
    revision: str


def revision_mark_name(digest: str, user: RecipeRevisionId | None) -> str:
    """Return the name of the mark file for starts of `user` with the entry `digest`."""
    return f"{digest}.{user.resource}.{user.revision}.use" if user else f"{digest}.use"


def parse_revision_mark_name(name: str) -> tuple[str, RecipeRevisionId | None] | None:
    """Return the entry and the user of a mark file. Return None if the name is not that of a mark file."""
    match = _MARK.fullmatch(name)
    if match is None:
        return None
    digest, resource, revision = match.groups()
    return digest, RecipeRevisionId(resource, revision) if resource else None


def is_needed_by_revisions(users: Collection[RecipeRevisionId | None], kept: KeptRevisions | None) -> bool:
    """Return True if one of these users, or an unknown user, may start with the entry in the future."""
    # An entry is kept if a user is unknown, belongs to another resource or has no revision, or if `kept` is None.
    if kept is None or not users:
        return True
    return any(user is None or user.resource != kept.resource or user.revision in kept.revisions for user in users)


class Revisions:
    """The kept revisions, read from `file` at each call because the kubelet changes it while the pod runs."""

    def __init__(self, file: str | None, environment: Mapping[str, str]) -> None:
        """Remember the `file` with KeptRevisions; None if the kept revisions are unknown."""
        self._file, self._revision = file, environment.get(REVISION_VARIABLE, "")

    def read_kept(self) -> KeptRevisions | None:
        """Return the kept revisions. Return None if the file cannot be read; no revision is removed then."""
        if self._file is None:
            return None
        try:
            return KeptRevisions.model_validate_json(Path(self._file).read_bytes())
        except (OSError, ValidationError) as error:
            log.info("The list of kept revisions cannot be read, so the recipes of all revisions are kept: %s", error)
            return None

    def pod_revision(self) -> RecipeRevisionId | None:
        """Return the revision of this pod; None if its resource or its name is unknown."""
        kept = self.read_kept()
        return RecipeRevisionId(kept.resource, self._revision) if kept and _NAME.fullmatch(self._revision) else None
