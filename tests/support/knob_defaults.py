"""The comparison of the defaults in the table of knobs with the defaults of the installed vLLM."""

from gaudi_runtime.engines.vllm.vllm_imports import parse_arguments
from gaudi_runtime.knobs.table import Reader, Type, knobs


def wrong_defaults() -> dict[str, tuple[str, str]]:
    """Return (default of the table, default of vLLM) of each numeric argument whose defaults differ.

    Arguments whose default vLLM computes are left out.
    """
    has = vars(parse_arguments(["--model=any"]))
    said = {
        each.name: (each.default, str(has.get(each.name[2:].replace("-", "_"))))
        for each in knobs().values()
        if each.name.startswith("--") and each.reader is Reader.VLLM and each.type in (Type.INT, Type.FLOAT)
    }
    return {name: pair for name, pair in said.items() if pair[1] != "None" and pair[0] != pair[1]}
