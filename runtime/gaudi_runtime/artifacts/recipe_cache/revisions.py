"""What this pod knows of the revisions of its resource: its own, and those that can still be run."""

import logging
import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from gaudi_runtime.artifacts.recipe_cache.need import User
from gaudi_runtime.contract.kept_revisions import KeptRevisions
from gaudi_runtime.contract.ports import REVISION_VARIABLE

log = logging.getLogger(__name__)
_NAME = re.compile(r"[0-9a-z]{1,63}")


class Revisions:
    """Read anew with each question: the kubelet changes `file` while the pod runs."""

    def __init__(self, file: str | None, environment: Mapping[str, str]) -> None:
        """`file` has KeptRevisions; None where nobody says which are kept."""
        self._file, self._own = file, environment.get(REVISION_VARIABLE, "")

    def kept(self) -> KeptRevisions | None:
        """None where the file cannot be read: nothing is removed then for want of a revision."""
        if self._file is None:
            return None
        try:
            return KeptRevisions.model_validate_json(Path(self._file).read_bytes())
        except (OSError, ValidationError) as error:
            log.info("Which revisions are kept is not known: %s", error)
            return None

    def own(self) -> User | None:
        """None where the resource is not known, or the variable holds no name of a revision."""
        kept = self.kept()
        return User(kept.resource, self._own) if kept and _NAME.fullmatch(self._own) else None
