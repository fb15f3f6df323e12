"""The compiles of a pod in the contract's report: their times by stage, and recompilations by part of a step."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gaudi_runtime.contract.base import TolerantModel
from gaudi_runtime.contract.report_fields import Count, Large, Seconds, ShortText

MAX_STEP_COMPILES = 16
RECOMPILATION_SECONDS = 0.1
"""Recipes of a part of a step that take more seconds to compile count as a recompilation, on a card."""
COMPILE_BOUNDS = (0.001, 0.003, 0.01, 0.03, RECOMPILATION_SECONDS, 0.3, 1.0, 3.0, 10.0)
"""Upper bounds, in seconds, of the classes of compile times. There is one more class, for longer times."""


class CompileTimes(TolerantModel):
    """The graph compile times of one stage in the contract's report, as measured by the bridge (vllm on a card)."""

    stage: Annotated[str, Field(max_length=16)] = Field(
        description="warm or capture: per bucket; sampler or defragmenter: as a whole; serving: per forward and other"
        " part of a step, without those for which Dynamo made a graph."
    )
    recipes: Large
    seconds: Seconds
    counts: Annotated[tuple[Count, ...], Field(max_length=16)] = Field(
        description="Buckets or batches that needed a compile, by its time: one count for each of COMPILE_BOUNDS, and"
        " one for longer times."
    )


class StepPart(StrEnum):
    """The parts of a step in the contract's report. OTHER prepares inputs, moves blocks and collects tokens."""

    FORWARD = "forward"
    SAMPLER = "sampler"
    OTHER = "other"


class StepCompiles(TolerantModel):
    """Recompilations of one part of the steps while serving in the contract's report (vllm only)."""

    part: StepPart
    kind: ShortText = Field(
        "", description="Only of the sampler: the parameters of the requests in the step, such as `logprobs`."
    )
    count: Count = Field(description="Recompilations, of which a step has at most one in each part or forward.")
    seconds: Seconds = Field(description="Time of Dynamo and of the bridge in these recompilations.")
