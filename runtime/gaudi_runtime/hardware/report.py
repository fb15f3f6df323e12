"""The one file that a machine's trial writes: figures, versions, differences, and what they prove.

See docs/how-to/hardware.md.

It holds nothing secret: no environment, no key, no text of a request. Paths and names of the configuration are in it.
"""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from gaudi_runtime.contract.base import Tolerant
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import Phase, WarmupReport


class Outcome(StrEnum):
    """Of a proof; NOT_TRIED where something before it failed, or where it does not apply."""

    PROVEN = "Proven"
    DISPROVEN = "Disproven"
    NOT_TRIED = "NotTried"


class Proof(Tolerant):
    """One thing that must be true of a card, and the figures that say whether it is."""

    name: str
    outcome: Outcome
    evidence: str


class Finding(Tolerant):
    """A row of `gaudi-runtime doctor`."""

    topic: str
    state: str
    found: str
    advice: str = ""


class NameFound(Tolerant):
    """A name of vLLM's plugin that this runtime uses, and how the installed plugin has it."""

    owner: str
    name: str
    wanted: tuple[str, ...] | None = Field(None, description="What is passed to a method; none for an attribute.")
    found: tuple[str, ...] | None = Field(None, description="The parameters that it takes; none for an attribute.")
    there: bool
    fits: bool = Field(description="Whether it can be used as it is.")
    needed: bool = Field(description="Whether the engine cannot be driven without it.")


class Look(Tolerant):
    """One look at a starting instance. The report is read last: what is open is judged by what came after it."""

    seconds: float
    ready: bool
    open: bool = Field(description="Whether the model port took a connection.")
    phase: Phase


class Start(Tolerant):
    """One start, from the process to its first readiness. Times in seconds, measured here."""

    name: str
    looks: int = Field(description="How often probes, model port and report were looked at, one after the other.")
    early: tuple[Look, ...] = Field((), description="Looks that found it ready or open before it served.")
    seconds: float
    phases: dict[Phase, float] = Field(default_factory=dict, description="How long each was seen to take.")
    report: WarmupReport


class Traffic(Tolerant):
    """Requests of planned shapes, and what the instance says of them. Times in seconds."""

    requests: int
    failures: tuple[str, ...] = ()
    seconds: float
    tokens: int = Field(description="Tokens of all answers.")
    first_token_p50: float | None = None
    first_token_p99: float | None = None
    longest: float = Field(0.0, description="The slowest answer.")
    report: WarmupReport = Field(description="After the last answer.")

    @property
    def tokens_per_second(self) -> float:
        """Of all requests together."""
        return self.tokens / self.seconds if self.seconds else 0.0


class Upgrade(Tolerant):
    """One instance in place of another, with requests all the time."""

    in_place: bool = Field(description="The old one ended before the new one began: there are cards for one only.")
    seconds_without: float = Field(description="How long none was open, while requests waited.")
    traffic: Traffic
    answers_alike: bool | None = Field(None, description="Whether both answer the same greedy requests alike.")


class HardwareReport(Tolerant):
    """Everything that one trial found out."""

    version: Literal["v1"] = "v1"
    begun: str = Field(description="UTC, ISO 8601.")
    runtime: str = Field(description="Release of this runtime.")
    software: dict[str, str] = Field(description="Versions of what the image has, and of the machine.")
    pair: str = Field(description="What is installed, and whether this runtime drives it.")
    cards: tuple[str, ...] = ()
    cluster: dict[str, str] = Field(default_factory=dict, description="Where a cluster ran it: image, node, kubelet.")
    doctor: tuple[Finding, ...] = ()
    names: tuple[NameFound, ...] = ()
    config: RuntimeConfig
    starts: tuple[Start, ...] = ()
    traffic: Traffic | None = None
    upgrade: Upgrade | None = None
    ended: str | None = Field(None, description="Why the trial ended before its end.")
    log: tuple[str, ...] = Field((), description="The last lines of the instance that failed.")
    proofs: tuple[Proof, ...] = ()

    @property
    def proven(self) -> bool:
        """Whether nothing is disproven, and all was tried that could be."""
        return self.ended is None and all(each.outcome is not Outcome.DISPROVEN for each in self.proofs)
