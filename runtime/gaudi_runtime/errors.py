"""The errors of a runtime, as a tree. Every leaf has a stable reason for the report.

RuntimeStartError        this instance cannot serve; the report says why
├── ConfigError          the RuntimeConfig is missing or wrong
├── ModelNotFound        the checkpoint's folder or one of its files is missing
├── ModelUnreadable      a file of the checkpoint cannot be parsed
├── UnsupportedModel     this engine does not support the architecture
├── ModelAccessDenied    the hub requires a token, or the token lacks permissions
├── HubUnreachable       the hub does not answer, or sends incomplete data
├── DiskFull             the disk has too little space for the model
├── EngineUnsupported    the release of the engine lacks an interface that this runtime needs
├── EngineLost           a process of the engine died or no longer answers
├── RankFailed           a rank could not run a command; the reason comes from the rank
├── ApiKeyBlank          the API key that requests must send is blank
├── PlanImpossible       no bucket or no KV block fits
│   └── BucketsMissing   an admissible batch has no bucket
├── DeviceUnavailable    the requested device does not exist
└── PortUnavailable      a port of this instance is in use
DeviceOutOfMemory        a graph or buffer did not fit; ends the capture of a phase, not the process
GraphRefused             a limit in the spec excludes the graph of a shape
ShapeRefused             the engine does not run a bucket as planned, so the bucket stays cold or has no graph
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, ParamSpec

Judged = ParamSpec("Judged")


@dataclass(frozen=True)
class Problem:
    """A problem for error messages: a stable reason for programs, and a sentence with the remedy for people.

    `lasting` is a sentence that remains true after the pod is deleted, if `message` does not. `since` is the time when
    the problem began, if someone other than the reader may still fix it; None if only the reader can fix it.
    """

    reason: str
    message: str
    lasting: str | None = None
    since: datetime | None = field(default=None, kw_only=True)

    @property
    def lasting_message(self) -> str:
        """Return the sentence that remains true after the pod is deleted."""
        return self.lasting or self.message


class Checks(Generic[Judged]):
    """An ordered list of checks of the same facts. Only the first problem counts, because it may cause later ones."""

    def __init__(self, *checks: Callable[Judged, Problem | None]) -> None:
        """Store the checks in the order in which a person should fix the problems."""
        self._checks = checks

    def __call__(self, *args: Judged.args, **kwargs: Judged.kwargs) -> Problem | None:
        """Return the first problem and skip later checks; None if all checks pass."""
        return next((problem for check in self._checks if (problem := check(*args, **kwargs))), None)


class RuntimeStartError(Exception):
    """An error that ends the start of this instance. Its message is a sentence for the user."""

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
    """The runtime error that this engine does not support the model's architecture."""

    reason = "UnsupportedModel"


class ModelAccessDenied(RuntimeStartError):
    """The runtime error that the hub requires a token, or that the token lacks permissions."""

    reason = "ModelAccessDenied"


class HubUnreachable(RuntimeStartError):
    """The runtime error that the hub does not answer or sends incomplete data. A retry may help."""

    reason = "HubUnreachable"


class DiskFull(RuntimeStartError):
    """The runtime error that the disk has too little space for the model."""

    reason = "DiskFull"


class EngineUnsupported(RuntimeStartError):
    """The runtime error that the release of the engine lacks an interface that this runtime needs."""

    reason = "EngineUnsupported"


class EngineLost(RuntimeStartError):
    """The runtime error that a process of the engine died or does not answer. Only a new process helps."""

    reason = "EngineLost"


class RankFailed(RuntimeStartError):
    """The runtime error that a rank could not run a command. `reason` comes from the rank."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ApiKeyBlank(RuntimeStartError):
    """The runtime error that the API key that requests must send is blank."""

    reason = "ApiKeyBlank"


class CertificateUnusable(RuntimeStartError):
    """The runtime error that the model port needs TLS but has no usable certificate and key."""

    reason = "CertificateUnusable"


class PlanImpossible(RuntimeStartError):
    """The runtime error that no bucket or no KV block fits. `source` is the setting or file that causes it."""

    reason = "PlanImpossible"

    def __init__(self, message: str, source: str | None = None) -> None:
        # Pass both arguments to Exception, so that unpickling creates an equal exception.
        super().__init__(message, source)
        self.source = source

    def __str__(self) -> str:
        message = str(self.args[0])
        return f"{self.source}: {message}" if self.source else message


class BucketsMissing(PlanImpossible):
    """The runtime error that an admissible batch has no bucket, although the spec allows no gaps."""

    reason = "BucketsMissing"


class DeviceUnavailable(RuntimeStartError):
    """The runtime error that the requested device does not exist."""

    reason = "DeviceUnavailable"


class PortUnavailable(RuntimeStartError):
    """The runtime error that a port of this instance is in use."""

    reason = "PortUnavailable"


class DeviceOutOfMemory(Exception):
    """The runtime error that a graph or buffer does not fit into device memory. The caller continues without it."""


class GraphRefused(Exception):
    """The runtime error that a limit in the spec excludes the graph of this shape."""


class ShapeRefused(Exception):
    """The runtime error that the engine does not run or capture this bucket as planned."""
