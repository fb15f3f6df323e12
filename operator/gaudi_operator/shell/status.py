"""Shows a status, once per pass and only when it differs from what the resource shows.

How often progress may move is the decision's part (core); this module tells it when the last write went out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.observed import Manifest
from gaudi_operator.shell.apply import Writer

_MOST_KNOWN = 10_000


@dataclass(frozen=True)
class _Written:
    """The last write for a resource: what was asked, what the API server made of it, and when."""

    asked: Mapping[str, Any]
    result: Mapping[str, Any]
    at: datetime


class StatusWriter:
    """Writes statuses by server-side apply on the status subresource."""

    def __init__(self, writer: Writer) -> None:
        """Nothing is written yet."""
        self._writer = writer
        self._written: dict[str, _Written] = {}

    def written_at(self, uid: str) -> datetime | None:
        """When this process last wrote the status of the resource with that UID."""
        last = self._written.get(uid)
        return last.at if last else None

    async def show(self, resource: Manifest, status: GaudiInferenceStatus) -> None:
        """Write the status unless it stands there. Raises OperatorError when the write fails."""
        uid, shown = resource["metadata"]["uid"], resource.get("status") or {}
        asked = _without_empty(status.model_dump(by_alias=True, exclude_none=True, mode="json"))
        last = self._written.get(uid)
        # Another manager may own further fields of the status: what we asked for then gave `result`.
        if asked == shown or (last and asked == last.asked and shown == last.result):
            return
        answer = await self._writer.write_status(resource, asked)
        self._written[uid] = _Written(asked, (answer or {}).get("status") or {}, datetime.now(UTC))
        while len(self._written) > _MOST_KNOWN:
            self._written.pop(next(iter(self._written)))


def _without_empty(value: Any) -> Any:
    """Leave empty maps and lists out: server-side apply turns a map that has lost its last field into null."""
    if isinstance(value, dict):
        kept = {name: _without_empty(each) for name, each in value.items()}
        return {name: each for name, each in kept.items() if each not in ({}, [])}
    return [_without_empty(each) for each in value] if isinstance(value, list) else value
