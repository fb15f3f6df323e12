"""What a simulated card does, as read from `engine.simScript` (docs/sim.md)."""

from typing import Annotated

from pydantic import Field, ValidationError

from gaudi_runtime.contract.base import Wire
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import ConfigError

GIB = 1024**3
Seconds = Annotated[float, Field(ge=0, le=86_400)]
Size = Annotated[int, Field(ge=0)]
Nth = Annotated[str, Field(pattern=r"^(prompt|decode):[1-9][0-9]{0,6}$")]


class SimScript(Wire):
    """Card and faults. A fault at "prompt:3" strikes at the third prompt bucket in the order of the work."""

    load_seconds: Seconds = 0
    compile_seconds: Seconds = Field(0, description="Time to compile one bucket.")
    capture_seconds: Seconds = Field(0, description="Time to capture one graph.")
    device_memory_bytes: Size = Field(128 * GIB, description="Memory of the card.")
    weight_bytes: Size = Field(16 * GIB, description="Memory that the weights take.")
    block_bytes: Annotated[int, Field(ge=1)] = Field(16 * 1024**2, description="Bytes of one KV block.")
    graph_bytes_per_token: Size = Field(1024**2, description="Prompt: per batch size x query token.")
    decode_graph_bytes_per_token: Size | None = Field(None, description="Decode: per sequence; default as prompt.")
    tokens_per_second: Annotated[float, Field(ge=0)] = Field(0, description="Per sequence; 0 is without delay.")
    oom_at_bucket: Nth | None = Field(None, description="This capture runs out of device memory.")
    stall_at_bucket: Nth | None = Field(None, description="This compile never ends.")
    raise_at_bucket: Nth | None = Field(None, description="This compile raises an unexpected exception.")
    crash_at_bucket: Nth | None = Field(None, description="This compile kills the process, as a segfault would.")
    fail_load: str | None = Field(None, description="Loading fails with this reason, such as ModelNotFound.")
    fail_at_token: Size = Field(0, description="Every answer fails at this token; 0 never.")
    stall_serving: bool = Field(False, description="The engine's loop stands still once it serves.")

    def graph_bytes(self, phase: BucketPhase, batch_size: int, query_len: int) -> int:
        """Bytes of the graph of one bucket."""
        if phase is BucketPhase.PROMPT or self.decode_graph_bytes_per_token is None:
            return self.graph_bytes_per_token * batch_size * query_len
        return self.decode_graph_bytes_per_token * batch_size


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
