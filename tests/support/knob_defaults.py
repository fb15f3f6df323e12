"""A comparison of the defaults in the table of knobs with the defaults of the installed vLLM."""

from gaudi_runtime.engines.vllm.vllm_imports import parse_arguments
from gaudi_runtime.knobs.table import KnobReader, KnobType, knobs


def wrong_defaults() -> dict[str, tuple[str, str]]:
    """Return the numeric arguments whose defaults differ, each with (default in the table, default of vLLM).

    Arguments whose default vLLM computes are omitted.
    """
    has = vars(parse_arguments(["--model=any"]))
    said = {
        each.name: (each.default, str(has.get(each.name[2:].replace("-", "_"))))
        for each in knobs().values()
        if each.name.startswith("--") and each.reader is KnobReader.VLLM and each.type in (KnobType.INT, KnobType.FLOAT)
    }
    return {name: pair for name, pair in said.items() if pair[1] != "None" and pair[0] != pair[1]}
