"""The entries of engine.settings that a RuntimeConfig has as fields. Pure.

Plan and warm-up depend on these knobs, so the runtime reads typed fields, and the plan hash contains them. The script
of the sim engine is another field.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from gaudi_runtime.contract.bucketing import AttentionSlices
from gaudi_runtime.contract.config import CaptureOrder
from gaudi_runtime.knobs.table import Knob, KnobType, knobs
from gaudi_runtime.knobs.values import to_engine_value

SLICED = "PT_HPU_SDPA_QKV_SLICE_MODE_FWD"
_SLICES = "limits.slidingWindowSlices"
_RANGES = {
    "PROMPT_BS": "bucketing.prompt.batchSize",
    "PROMPT_QUERY": "bucketing.prompt.query",
    "PROMPT_CTX": "bucketing.prompt.context",
    "DECODE_BS": "bucketing.decode.batchSize",
    "DECODE_BLOCK": "bucketing.decode.blocks",
}
PAD_LIMITS = {f"VLLM_{name}_BUCKET_PAD_MAX": place for name, place in _RANGES.items()}
"""The range of each setting that limits the padding of strategy PaddingAware, in units of the range."""
SETTING_FIELDS = {
    **{name: (place, "pad_max") for name, place in PAD_LIMITS.items()},
    "VLLM_CONTIGUOUS_PA": ("limits", "contiguous_paged_attention"),
    SLICED: ("limits", "sliding_window_slices"),
    "PT_HPU_SDPA_BC_FACTOR": (_SLICES, "tokens"),
    "VLLM_FUSEDSDPA_SLIDE_THLD": (_SLICES, "from_tokens"),
    "VLLM_GRAPH_PROMPT_RATIO": ("warmup", "prompt_ratio"),
    "VLLM_GRAPH_PROMPT_STRATEGY": ("warmup", "prompt_order"),
    "VLLM_GRAPH_DECODE_STRATEGY": ("warmup", "decode_order"),
    "--max-cudagraph-capture-size": ("warmup", "max_graph_tokens"),
    "VLLM_FULL_WARMUP": ("warmup", "fail_on_cold_shapes"),
}
"""The section and the field of each such knob."""
SLICE_SETTINGS = tuple(name for name, (section, _) in SETTING_FIELDS.items() if section == _SLICES)


class SplitSettings(NamedTuple):
    """The entries of engine.settings, by the place where a RuntimeConfig has them; those of bucketing by range."""

    limits: dict[str, Any]
    warmup: dict[str, Any]
    bucketing: dict[str, dict[str, Any]]
    engine: dict[str, str]
    sim_script: dict[str, str]


def split_settings(settings: Mapping[str, str], *, is_simulated: bool = False) -> SplitSettings:
    """Return the entries of engine.settings by their place. Wrong values are left out, because check.py reports them.

    The settings of slices have no effect without SLICED. With `is_simulated`, names that begin with a lower-case letter
    are the script of the sim engine. No knob has such a name.
    """
    sections: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for name in settings.keys() & SETTING_FIELDS.keys():
        section, field = SETTING_FIELDS[name]
        value = _typed_value(knobs()[name], settings[name])
        if value is not None:
            sections[section][field] = value
    limits = sections["limits"]
    if limits.pop("sliding_window_slices", False):
        limits["sliding_window_slices"] = AttentionSlices.model_validate(sections[_SLICES])
    sim_script = {name: value for name, value in settings.items() if is_simulated and name[0].islower()}
    fields = sim_script.keys() | SETTING_FIELDS.keys()
    engine = {name: value for name, value in settings.items() if name not in fields}
    ranges = {place: sections[place] for place in _RANGES.values() if place in sections}
    return SplitSettings(limits, sections["warmup"], ranges, engine, sim_script)


def _typed_value(knob: Knob, value: str) -> Any:
    try:
        word = to_engine_value(knob, value)
    except ValueError:
        return None
    match knob.type:
        case KnobType.BOOL:
            return word == knob.choices[0]
        case KnobType.INT:
            return int(word)
        case KnobType.FLOAT:
            return float(word)
    return CaptureOrder[word.upper()]
