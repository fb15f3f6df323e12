"""Whether an entry is needed by a revision that can still be run. Pure.

A mark says for whom a start used an entry: DIGEST.RESOURCE.REVISION.use, or DIGEST.use where nobody said a revision.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

from gaudi_runtime.contract.kept_revisions import KeptRevisions

_MARK = re.compile(r"([0-9a-f]{16})(?:\.([0-9A-Za-z-]+)\.([0-9a-z]+))?\.use")


@dataclass(frozen=True)
class User:
    """A revision, by the uid of its resource and its name."""

    resource: str
    revision: str


def mark_name(digest: str, user: User | None) -> str:
    """The file that stands for starts of `user` with the entry `digest`."""
    return f"{digest}.{user.resource}.{user.revision}.use" if user else f"{digest}.use"


def marked(name: str) -> tuple[str, User | None] | None:
    """The entry and the user that a file stands for, None when it is no mark."""
    found = _MARK.fullmatch(name)
    if found is None:
        return None
    digest, resource, revision = found.groups()
    return digest, User(resource, revision) if resource else None


def is_needed(users: Collection[User | None], kept: KeptRevisions | None) -> bool:
    """Whether an entry that starts of `users` have used may be used again (docs/warmup.md, Recipe cache).

    Nothing is known of other resources, of starts that said no revision, and where `kept` is None: they need it.
    """
    if kept is None or not users:
        return True
    return any(user is None or user.resource != kept.resource or user.revision in kept.revisions for user in users)
