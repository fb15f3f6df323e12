"""The script of a simulated card: its costs and faults, read from `engine.simScript` (docs/reference/sim.md)."""

import os
import threading
from collections import Counter
from typing import Annotated

from pydantic import Field, ValidationError

from gaudi_runtime.contract.base import WireModel
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError, DeviceOutOfMemory

SEGFAULT_EXIT = 139

Seconds = Annotated[float, Field(ge=0, le=86_400)]
Size = Annotated[int, Field(ge=0, le=2**60)]
Rate = Annotated[float, Field(ge=0, le=1e9)]
Nth = Annotated[str, Field(pattern=r"^(prompt|decode):[1-9][0-9]{0,6}$")]
Name = Annotated[str, Field(min_length=1, max_length=128)]


class SimScript(WireModel):
    """The script of a simulated card. A fault at "prompt:3" occurs at the third prompt bucket of the warm-up."""

    card: Name | None = Field(None, description="A described card, such as gaudi2: its memory and measured rates.")
    model: Name | None = Field(
        None, description="A known model by its repository: its weights and KV block on the card."
    )
    time_scale: Annotated[float, Field(ge=0, le=1000)] = Field(
        1, description="Every simulated second takes this many real ones; 0.01 is a hundred times faster."
    )
    load_seconds: Seconds = Field(0, description="Time to load the weights.")
    compile_seconds: Seconds | None = Field(
        None, description="Time to compile one bucket, also on the request path when a shape is cold."
    )
    recipe_seconds: Seconds | None = Field(
        None, description="Time to compile a bucket whose recipe is in the recipe cache; a third of compiling it."
    )
    capture_seconds: Seconds | None = Field(None, description="Time to capture one graph.")
    device_memory_bytes: Size | None = Field(None, description="Memory of the card.")
    weight_bytes: Size | None = Field(None, description="Memory that the weights take.")
    workspace_bytes: Size | None = Field(None, description="Memory that the profile run takes.")
    block_bytes: Annotated[int, Field(ge=1, le=2**60)] | None = Field(None, description="Bytes of one KV block.")
    graph_bytes_per_token: Annotated[float, Field(ge=0, le=2**50)] | None = Field(
        None, description="Bytes of a prompt graph per token: batch size x (query + context)."
    )
    graph_bytes_per_sequence: Annotated[float, Field(ge=0, le=2**50)] | None = Field(
        None, description="Bytes of a decode graph per sequence of its batch."
    )
    prompt_tokens_per_second: Rate | None = Field(None, description="Speed of a prompt; 0 is without delay.")
    tokens_per_second: Rate | None = Field(None, description="Speed of one answer; 0 is without delay.")
    oom_at_bucket: Nth | None = Field(None, description="This capture runs out of device memory.")
    oom_at_compile: Nth | None = Field(None, description="This compile runs out of device memory.")
    slow_at_bucket: Nth | None = Field(None, description="This compile takes slowSeconds more.")
    slow_seconds: Seconds = Field(60, description="The time that slowAtBucket adds.")
    stall_at_bucket: Nth | None = Field(None, description="This compile never ends.")
    raise_at_bucket: Nth | None = Field(None, description="This compile raises an unexpected exception.")
    crash_at_bucket: Nth | None = Field(None, description="This compile kills the process, as a segfault would.")
    only_rank: Annotated[int, Field(ge=0, le=63)] | None = Field(
        None,
        description="Faults of loading and of buckets occur only on this rank of a group; by default on all.",
    )
    fail_load: Name | None = Field(None, description="Loading fails with this reason, such as ModelNotFound.")
    fail_at_token: Size = Field(0, description="Every answer fails at this token; 0 never.")
    recompile_every: Size = Field(0, description="Every Nth request uses a cold shape; 0 never.")
    stall_serving: bool = Field(False, description="The engine's loop stops after it has begun to serve.")


def read_script(script: dict[str, str | int | float]) -> SimScript:
    """Read and check the script. Raises ConfigError, which names the wrong key."""
    try:
        return SimScript.model_validate(script)
    except ValidationError as error:
        item = error.errors()[0]
        key = ".".join(map(str, item["loc"]))
        keys = ", ".join(str(field.alias) for field in SimScript.model_fields.values())
        raise ConfigError(f"engine.simScript.{key}: {item['msg']}. The valid keys are {keys}.") from error


class ScriptFaults:
    """The scripted faults of the warm-up. The steps of each phase are counted from 1, as in the script."""

    def __init__(self, script: SimScript, rank: int = 0) -> None:
        """Create the faults; there are none if the script limits the faults to another rank."""
        is_other_rank = script.only_rank is not None and script.only_rank != rank
        self.script = SimScript() if is_other_rank else script
        self._steps: Counter[tuple[str, BucketPhase]] = Counter()

    def inject_compile_fault(self, phase: BucketPhase) -> float:
        """Count a compile and return its additional seconds. The script may make it raise, block or end the process."""
        step, script = self._count_step("compile", phase), self.script
        if step == script.stall_at_bucket:
            # Nothing ever sets this event, so the thread blocks until the runtime's stall timeout ends the process.
            threading.Event().wait()
        if step == script.crash_at_bucket:
            # Exit like a fault in a native library: without an exception, a clean-up or a last report.
            os._exit(SEGFAULT_EXIT)
        if step == script.raise_at_bucket:
            raise RuntimeError(f"simulated by raiseAtBucket={step}")
        if step == script.oom_at_compile:
            raise DeviceOutOfMemory(f"simulated by oomAtCompile={step}")
        return script.slow_seconds if step == script.slow_at_bucket else 0.0

    def inject_capture_fault(self, phase: BucketPhase) -> None:
        """Count a capture. Raises DeviceOutOfMemory if the script sets it for this bucket."""
        step = self._count_step("capture", phase)
        if step == self.script.oom_at_bucket:
            raise DeviceOutOfMemory(f"simulated by oomAtBucket={step}")

    def _count_step(self, verb: str, phase: BucketPhase) -> str:
        self._steps[verb, phase] += 1
        return f"{phase}:{self._steps[verb, phase]}"
