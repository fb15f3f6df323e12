"""What a simulated card does, as read from `engine.simScript` (docs/sim.md)."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, ValidationError

from gaudi_runtime.contract.base import Wire
from gaudi_runtime.errors import ConfigError

Seconds = Annotated[float, Field(ge=0, le=86_400)]
Size = Annotated[int, Field(ge=0, le=2**60)]
Rate = Annotated[float, Field(ge=0, le=1e9)]
Nth = Annotated[str, Field(pattern=r"^(prompt|decode):[1-9][0-9]{0,6}$")]
Name = Annotated[str, Field(min_length=1, max_length=128)]


class Misreport(StrEnum):
    """What a runtime with a wrong plan says falsely."""

    PLAN_HASH = "planHash"
    BUCKETS_DIGEST = "bucketsDigest"


class SimScript(Wire):
    """Card and faults. A fault at "prompt:3" strikes at the third prompt bucket in the order of the work."""

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
    slow_seconds: Seconds = Field(60, description="What slowAtBucket adds.")
    stall_at_bucket: Nth | None = Field(None, description="This compile never ends.")
    raise_at_bucket: Nth | None = Field(None, description="This compile raises an unexpected exception.")
    crash_at_bucket: Nth | None = Field(None, description="This compile kills the process, as a segfault would.")
    only_rank: Annotated[int, Field(ge=0, le=63)] | None = Field(
        None,
        description="Faults of loading and of buckets strike only this rank of a group; all when left out.",
    )
    fail_load: Name | None = Field(None, description="Loading fails with this reason, such as ModelNotFound.")
    fail_at_token: Size = Field(0, description="Every answer fails at this token; 0 never.")
    recompile_every: Size = Field(0, description="Every so manieth request meets a shape that is cold; 0 never.")
    leak_bytes_per_bucket: Size = Field(0, description="Device memory that every compile loses.")
    leak_bytes_per_request: Size = Field(0, description="Device memory that every request loses, until one fails.")
    misreport: Misreport | None = Field(None, description="The report names another plan: planHash or bucketsDigest.")
    stall_serving: bool = Field(False, description="The engine's loop stands still once it serves.")


def read_script(script: dict[str, str | int | float]) -> SimScript:
    """The script, checked. Raises ConfigError that names the wrong key."""
    try:
        return SimScript.model_validate(script)
    except ValidationError as error:
        item = error.errors()[0]
        key = ".".join(map(str, item["loc"]))
        raise ConfigError(f"engine.simScript.{key}: {item['msg']}; keys are {', '.join(_keys())}.") from error


def _keys() -> list[str]:
    return [str(field.alias) for field in SimScript.model_fields.values()]
