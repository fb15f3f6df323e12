"""Defaults of the table of knobs against those of a vLLM that is installed."""

from gaudi_runtime.engines.vllm.vllm_imports import parse_arguments
from gaudi_runtime.knobs.table import Reader, Type, knobs


def wrong_defaults() -> dict[str, tuple[str, str]]:
    """Of the arguments with a number for a default: what the table says, and what vLLM has; None where it decides."""
    has = vars(parse_arguments(["--model=any"]))
    said = {
        each.name: (each.default, str(has.get(each.name[2:].replace("-", "_"))))
        for each in knobs().values()
        if each.name.startswith("--") and each.reader is Reader.VLLM and each.type in (Type.INT, Type.FLOAT)
    }
    return {name: pair for name, pair in said.items() if pair[1] != "None" and pair[0] != pair[1]}
