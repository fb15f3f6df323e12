"""Which kinds this cluster knows: ours are waited for, optional ones are used where they are installed."""

import asyncio
import logging
from collections.abc import Callable, Collection

from gaudi_operator.errors import NotFound, OperatorError
from gaudi_operator.shell.backoff import Backoff
from gaudi_operator.shell.client import Cluster
from gaudi_operator.shell.kinds import OPTIONAL, WATCHED, Kind

LOOK_SECONDS = 5.0
"""Between two looks for an optional kind that a resource has use for."""

log = logging.getLogger(__name__)


class ServedKinds:
    """Asks the API server. Its errors are met with patience: only an answer tells that a kind is not there."""

    def __init__(self, cluster: Cluster) -> None:
        """Nothing is asked yet."""
        self._cluster = cluster

    async def until_defined(self, kind: Kind) -> None:
        """Wait for a CustomResourceDefinition: a chart may install it after us."""
        backoff = Backoff(1.0, 10.0)
        while not await self._is_served(kind):
            log.warning("%s is not defined in this cluster yet: install the CRD.", kind.kind)
            await asyncio.sleep(backoff.next())

    async def now(self) -> set[Kind]:
        """All kinds to watch: a watch of one that is not there would fail for ever."""
        return {*WATCHED, *[kind for kind in OPTIONAL if await self._is_served(kind)]}

    async def until_more(self, watched: Collection[Kind], wanted: Callable[[], bool]) -> None:
        """Until a kind is installed that is not `watched`. Asked only while it is `wanted`: at rest nothing is."""
        missing = [kind for kind in OPTIONAL if kind not in watched]
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for kind in missing if wanted() else ():
                if await self._is_served(kind):
                    log.info("%s were installed: they are watched from now on.", kind.plural)
                    return

    async def _is_served(self, kind: Kind) -> bool:
        backoff = Backoff(1.0, 10.0)
        while True:
            try:
                found = await self._cluster.request("GET", f"/apis/{kind.api_version}")
            except NotFound:
                return False
            except OperatorError as error:
                log.warning("%s", error)
                await asyncio.sleep(backoff.next())
            else:
                return any(each["name"] == kind.plural for each in found.get("resources") or ())
