"""What can go wrong in a runtime, as a tree; every leaf has a stable reason for the report.

RuntimeStartError        this instance cannot serve; the report says why
├── ConfigError          the RuntimeConfig is missing or wrong
├── ModelNotFound        the checkpoint's folder or one of its files is missing
├── ModelUnreadable      a file of the checkpoint cannot be parsed
├── UnsupportedModel     the architecture is not served by this engine
├── ModelAccessDenied    the hub wants a token, or other rights than this one has
├── HubUnreachable       the hub does not answer, or not with what it states
├── DiskFull             the model has no room on the disk
├── EngineUnsupported    the release of the engine lacks what this runtime drives it by
├── EngineLost           a process of the engine died, or does not answer any more
├── RankFailed           a rank could not do what it was asked; the reason is its own
├── ApiKeyBlank          the key that requests must bring is there, and blank
├── PlanImpossible       no bucket or no KV block fits
├── TraceUnreadable      a trace of requests is no CSV of requests
├── DeviceUnavailable    the wanted device is not there
└── PortUnavailable      a port that this instance serves on is taken
DeviceOutOfMemory        a graph or buffer did not fit; ends capture of a phase, not the process
GraphRefused             the engine runs a shape without a graph, whatever memory there is
└── ShapeRefused         the engine runs a bucket as another one, so it stays cold
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, ParamSpec

Judged = ParamSpec("Judged")


@dataclass(frozen=True)
class Problem:
    """A stable reason for programs, and a sentence for people that says what is wrong and what to do.

    `lasting` is the sentence that stays true when the pod it speaks of is gone, where that is another one. `since` is
    when it began, where others than the reader may still mend it; None where only the reader can.
    """

    reason: str
    message: str
    lasting: str | None = None
    since: datetime | None = field(default=None, kw_only=True)

    @property
    def kept(self) -> str:
        """What may still be said when the pod is gone."""
        return self.lasting or self.message


class Checks(Generic[Judged]):
    """Ordered checks of the same facts: the first problem counts, for what comes later may follow from it."""

    def __init__(self, *checks: Callable[Judged, Problem | None]) -> None:
        """In the order in which a person should fix what they find."""
        self._checks = checks

    def __call__(self, *args: Judged.args, **kwargs: Judged.kwargs) -> Problem | None:
        """The first problem; no check behind it is asked. None when all pass."""
        return next((found for check in self._checks if (found := check(*args, **kwargs))), None)


class RuntimeStartError(Exception):
    """Ends the start-up of this instance with a sentence for the user."""

    reason = "StartFailed"


class ConfigError(RuntimeStartError):
    """The RuntimeConfig is missing or wrong."""

    reason = "ConfigInvalid"


class ModelNotFound(RuntimeStartError):
    """The checkpoint's folder or one of its files is missing."""

    reason = "ModelNotFound"


class ModelUnreadable(RuntimeStartError):
    """A file of the checkpoint cannot be parsed."""

    reason = "ModelUnreadable"


class UnsupportedModel(RuntimeStartError):
    """The model's architecture is not served by this engine."""

    reason = "UnsupportedModel"


class ModelAccessDenied(RuntimeStartError):
    """The hub wants a token, or other rights than this one has."""

    reason = "ModelAccessDenied"


class HubUnreachable(RuntimeStartError):
    """The hub does not answer, or not with what it states; another try may help."""

    reason = "HubUnreachable"


class DiskFull(RuntimeStartError):
    """The model has no room on the disk."""

    reason = "DiskFull"


class EngineUnsupported(RuntimeStartError):
    """The release of the engine lacks what this runtime drives it by."""

    reason = "EngineUnsupported"


class EngineLost(RuntimeStartError):
    """A process of the engine died, or does not answer any more: only a new process helps."""

    reason = "EngineLost"


class RankFailed(RuntimeStartError):
    """A rank could not do what it was asked; `reason` is the rank's own."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ApiKeyBlank(RuntimeStartError):
    """The key that requests must bring is there, and blank."""

    reason = "ApiKeyBlank"


class CertificateUnusable(RuntimeStartError):
    """The model port is to speak TLS, and there is no pair of certificate and key for it."""

    reason = "CertificateUnusable"


class PlanImpossible(RuntimeStartError):
    """No bucket or no KV block fits; `where` is the setting or file at fault, None where it is none alone."""

    reason = "PlanImpossible"

    def __init__(self, message: str, where: str | None = None) -> None:
        # Both as they came: whoever makes the exception again from its arguments has the same one.
        super().__init__(message, where)
        self.where = where

    def __str__(self) -> str:
        message = str(self.args[0])
        return f"{self.where}: {message}" if self.where else message


class TraceUnreadable(RuntimeStartError):
    """A trace of requests is no CSV of requests; the text goes on after the trace's name."""

    reason = "TraceUnreadable"


class DeviceUnavailable(RuntimeStartError):
    """The wanted device is not there."""

    reason = "DeviceUnavailable"


class PortUnavailable(RuntimeStartError):
    """A port that this instance serves on is taken."""

    reason = "PortUnavailable"


class DeviceOutOfMemory(Exception):
    """The device has no room for a graph or buffer; the caller goes on without it."""


class GraphRefused(Exception):
    """The engine runs this shape without a graph, whatever memory there is; the bucket counts as not captured."""


class ShapeRefused(GraphRefused):
    """The engine runs this bucket as another one; it stays cold."""
