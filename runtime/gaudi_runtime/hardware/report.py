"""The report of a hardware trial: values, versions, differences and proofs in one file.

See docs/how-to/hardware.md.

The report contains no environment variables, no keys and no request texts. It contains paths and names from the
configuration.
"""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from gaudi_runtime.contract.base import TolerantModel
from gaudi_runtime.contract.bucketing import Strategy
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import Phase, WarmupReport


class ReportProofOutcome(StrEnum):
    """The outcome of a proof in the hardware report. NOT_TRIED: an earlier step failed, or the proof does not apply."""

    PROVEN = "Proven"
    DISPROVEN = "Disproven"
    NOT_TRIED = "NotTried"


class ReportProof(TolerantModel):
    """A proof in the hardware report: a property that a card must have, and the values that decide the outcome."""

    name: str
    outcome: ReportProofOutcome
    evidence: str


class ReportFinding(TolerantModel):
    """A row of `gaudi-runtime doctor` in the hardware report."""

    topic: str
    state: str
    found: str
    advice: str = ""


class ReportStartPoll(TolerantModel):
    """One poll of a starting instance in the hardware report.

    The instance's report is read last in each poll. The readiness and the open port are compared with this report.
    """

    seconds: float
    ready: bool
    open: bool = Field(description="Whether the model port accepted a connection.")
    phase: Phase


class ReportTrialTraffic(TolerantModel):
    """The traffic in the hardware report: requests of planned shapes, and the report of the instance after them.

    Times are in seconds.
    """

    requests: int
    failures: tuple[str, ...] = ()
    seconds: float
    tokens: int = Field(description="Tokens of all answers.")
    first_token_p50: float | None = None
    first_token_p99: float | None = None
    longest: float = Field(0.0, description="The slowest answer.")
    report: WarmupReport = Field(description="The report after the last answer.")

    @property
    def tokens_per_second(self) -> float:
        """The number of answer tokens per second, for all requests together."""
        return self.tokens / self.seconds if self.seconds else 0.0


class ReportInstanceStart(TolerantModel):
    """One start in the hardware report, from the start of the process to the first readiness, in seconds."""

    name: str
    strategy: Strategy
    polls: int = Field(description="How often probes, model port and report were polled.")
    early: tuple[ReportStartPoll, ...] = Field(
        (), description="Polls in which the instance was ready or open before it served."
    )
    seconds: float
    phases: dict[Phase, float] = Field(default_factory=dict, description="The observed duration of each phase.")
    report: WarmupReport
    traffic: ReportTrialTraffic | None = Field(None, description="The requests to this instance.")


class ReportCardTrial(TolerantModel):
    """The trial of one card before a model is loaded. Memory is in bytes."""

    recipes: int = Field(description="The recipes that the bridge counted for one new size.")
    allocated: int
    lowered: int = Field(description="How far the allocation lowered the free memory of the card.")


class HardwareReport(TolerantModel):
    """The report of one hardware trial: facts, values and proofs."""

    version: Literal["v1"] = "v1"
    begun: str = Field(description="UTC, ISO 8601.")
    runtime: str = Field(description="Release of this runtime.")
    software: dict[str, str] = Field(description="Versions of what the image has, and of the machine.")
    pair: str = Field(description="The installed versions, and whether this runtime supports them.")
    cards: tuple[str, ...] = ()
    doctor: tuple[ReportFinding, ...] = ()
    config: RuntimeConfig
    card: ReportCardTrial | None = None
    small_start: ReportInstanceStart | None = Field(None, description="A start with few buckets before all others.")
    starts: tuple[ReportInstanceStart, ...] = ()
    answers_alike: bool | None = Field(
        None, description="Whether two instances with the same plan give the same answers to greedy requests."
    )
    ended: str | None = Field(None, description="Why the trial ended early.")
    log: tuple[str, ...] = Field((), description="The last lines of the instance that failed.")
    proofs: tuple[ReportProof, ...] = ()

    @property
    def has_passed(self) -> bool:
        """Whether no proof failed and all steps of the trial ran."""
        return self.ended is None and all(proof.outcome is not ReportProofOutcome.DISPROVEN for proof in self.proofs)
