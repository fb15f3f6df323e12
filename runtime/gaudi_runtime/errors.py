"""The errors of a runtime, as a tree; every leaf has a stable reason for the report.

RuntimeStartError        this instance cannot serve; the report says why
├── ConfigError          the RuntimeConfig is missing or wrong
├── ModelNotFound        the checkpoint's folder or one of its files is missing
├── ModelUnreadable      a file of the checkpoint cannot be parsed
├── UnsupportedModel     the architecture is not served by this engine
├── ModelAccessDenied    the hub requires a token, or other permissions than the token has
├── HubUnreachable       the hub does not answer, or sends incomplete data
├── DiskFull             the disk has no room for the model
├── EngineUnsupported    the release of the engine lacks an interface that this runtime needs
├── EngineLost           a process of the engine died or no longer answers
├── RankFailed           a rank could not run a command; the reason is that of the rank
├── ApiKeyBlank          the API key that requests must send is blank
├── PlanImpossible       no bucket or no KV block fits
├── TraceUnreadable      a trace is not a CSV file of requests
├── DeviceUnavailable    the requested device does not exist
└── PortUnavailable      a port of this instance is in use
DeviceOutOfMemory        a graph or buffer did not fit; ends capture of a phase, not the process
GraphRefused             the engine never captures a graph of a shape
└── ShapeRefused         the engine runs a bucket as another bucket, so it stays cold
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, ParamSpec

Judged = ParamSpec("Judged")


@dataclass(frozen=True)
class Problem:
    """A problem as errors state it: a stable reason for programs, and a sentence for people with the remedy.

    `lasting` is a sentence that stays true after the pod is gone, if `message` does not. `since` is when the
    problem began, if someone other than the reader may still fix it; None if only the reader can.
    """

    reason: str
    message: str
    lasting: str | None = None
    since: datetime | None = field(default=None, kw_only=True)

    @property
    def kept(self) -> str:
        """Return the sentence that stays true after the pod is gone."""
        return self.lasting or self.message


class Checks(Generic[Judged]):
    """Ordered checks of the same facts for errors: only the first problem counts, as later ones may follow from it."""

    def __init__(self, *checks: Callable[Judged, Problem | None]) -> None:
        """Store the checks in the order in which a person should fix what they find."""
        self._checks = checks

    def __call__(self, *args: Judged.args, **kwargs: Judged.kwargs) -> Problem | None:
        """Return the first problem without running later checks; None if all pass."""
        return next((found for check in self._checks if (found := check(*args, **kwargs))), None)


class RuntimeStartError(Exception):
    """An error that ends the start-up of this instance, with a sentence for the user."""

    reason = "StartFailed"


class ConfigError(RuntimeStartError):
    """The runtime error that the RuntimeConfig is missing or wrong."""

    reason = "ConfigInvalid"


class ModelNotFound(RuntimeStartError):
    """The runtime error that the checkpoint's folder or one of its files is missing."""

    reason = "ModelNotFound"


class ModelUnreadable(RuntimeStartError):
    """The runtime error that a file of the checkpoint cannot be parsed."""

    reason = "ModelUnreadable"


class UnsupportedModel(RuntimeStartError):
    """The runtime error that the model's architecture is not served by this engine."""

    reason = "UnsupportedModel"


class ModelAccessDenied(RuntimeStartError):
    """The runtime error that the hub requires a token, or other permissions than the token has."""

    reason = "ModelAccessDenied"


class HubUnreachable(RuntimeStartError):
    """The runtime error that the hub does not answer or sends incomplete data; a retry may help."""

    reason = "HubUnreachable"


class DiskFull(RuntimeStartError):
    """The runtime error that the disk has no room for the model."""

    reason = "DiskFull"


class EngineUnsupported(RuntimeStartError):
    """The runtime error that the release of the engine lacks an interface that this runtime needs."""

    reason = "EngineUnsupported"


class EngineLost(RuntimeStartError):
    """The runtime error that a process of the engine died or no longer answers; only a new process helps."""

    reason = "EngineLost"


class RankFailed(RuntimeStartError):
    """The runtime error that a rank could not run a command; `reason` is that of the rank."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ApiKeyBlank(RuntimeStartError):
    """The runtime error that the API key that requests must send is blank."""

    reason = "ApiKeyBlank"


class CertificateUnusable(RuntimeStartError):
    """The runtime error that the model port needs TLS and has no usable pair of certificate and key."""

    reason = "CertificateUnusable"


class PlanImpossible(RuntimeStartError):
    """The runtime error that no bucket or no KV block fits; `where` is the setting or file at fault, if it is one."""

    reason = "PlanImpossible"

    def __init__(self, message: str, where: str | None = None) -> None:
        # Both arguments are passed on, so that unpickling creates an equal exception.
        super().__init__(message, where)
        self.where = where

    def __str__(self) -> str:
        message = str(self.args[0])
        return f"{self.where}: {message}" if self.where else message


class TraceUnreadable(RuntimeStartError):
    """The error that a trace is not a CSV file of requests; the message continues a sentence after its name."""

    reason = "TraceUnreadable"


class DeviceUnavailable(RuntimeStartError):
    """The runtime error that the requested device does not exist."""

    reason = "DeviceUnavailable"


class PortUnavailable(RuntimeStartError):
    """The runtime error that a port of this instance is in use."""

    reason = "PortUnavailable"


class DeviceOutOfMemory(Exception):
    """The runtime error that the device has no room for a graph or buffer; the caller continues without it."""


class GraphRefused(Exception):
    """The runtime error that the engine never captures a graph of this shape, which counts as not captured."""


class ShapeRefused(GraphRefused):
    """The runtime error that the engine runs this bucket as another bucket; it stays cold."""
