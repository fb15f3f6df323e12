"""Which revisions of a resource can still be run, as its pods read it (docs/warmup.md, Recipe cache)."""

from typing import Annotated

from pydantic import Field, StringConstraints

from gaudi_runtime.contract.base import Tolerant

ResourceId = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z-]{1,64}$")]


class KeptRevisions(Tolerant):
    """All revisions of one resource that run or can be undone to."""

    resource: ResourceId = Field(description="The resource's uid: several may share a volume.")
    revisions: tuple[str, ...]
