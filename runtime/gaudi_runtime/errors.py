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
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A stable reason for programs, and a sentence for people that says what is wrong and what to do.

    `lasting` is the sentence that stays true when the pod it speaks of is gone, where that is another one.
    """

    reason: str
    message: str
    lasting: str | None = None

    @property
    def kept(self) -> str:
        """What may still be said when the pod is gone."""
        return self.lasting or self.message


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


class PlanImpossible(RuntimeStartError):
    """No bucket or no KV block fits."""

    reason = "PlanImpossible"


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
