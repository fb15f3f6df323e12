"""Former fields that are entries of engine.settings now: who wrote one is read as if it had written the entry.

They stand at the same place of a spec, of the inputs of a revision and of a RuntimeConfig: resources of release 0.1.0
still have them, and so have ControllerRevisions and what their pods mount.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class FormerField:
    """A path on the wire, and the setting that says the same.

    `unsaid` is a value by which the field told the engine nothing, as when it was left out. `many` values become one
    text, with commas.
    """

    path: str
    setting: str
    unsaid: object = None
    many: bool = False


class _Fields(NamedTuple):
    compile_threads: FormerField
    layers_per_graph: FormerField
    runtime_scales: FormerField
    channelwise: FormerField
    execute: FormerField
    multimodal_buckets: FormerField
    multimodal_resolutions: FormerField
    allow_long_max_model_len: FormerField


FORMER = _Fields(
    FormerField("warmup.compileThreads", "PT_HPU_COMPILE_THREAD_POOL_SIZE"),
    FormerField("engine.layersPerGraph", "VLLM_CONFIG_HIDDEN_LAYERS"),
    FormerField("model.quantization.runtimeScales", "RUNTIME_SCALE_PATCHING"),
    FormerField("model.quantization.channelwise", "VLLM_HPU_FORCE_CHANNEL_FP8"),
    # The API server of then filled in false everywhere.
    FormerField("warmup.multimodal.execute", "VLLM_MM_WARMUP_OUTSIDE_COMPILE_ONLY", unsaid=False),
    FormerField("warmup.multimodal.buckets", "VLLM_MULTIMODAL_BUCKETS", many=True),
    FormerField("warmup.multimodal.resolutions", "VLLM_MULTIMODAL_RESOLUTIONS", many=True),
    FormerField("model.allowLongMaxModelLen", "VLLM_ALLOW_LONG_MAX_MODEL_LEN", unsaid=False),
)


def with_settings(document: Any) -> Any:
    """`document` (sections by name, as they stand on the wire) with settings for former fields; it is not changed.

    Where both stand the setting counts. What is no document, or no value that a setting can have, stays as it is.
    """
    for field in FORMER:
        document = _with_setting(document, field)
    return document


def former_sections(document: Any) -> set[str]:
    """The sections of `document` with a field that tells the engine what a setting would."""
    paths = ((field.path.split("."), field.unsaid) for field in FORMER)
    return {path[0] for path, unsaid in paths if _taken(document, path)[0] not in (None, unsaid, [])}


def _with_setting(document: Any, field: FormerField) -> Any:
    value, rest = _taken(document, field.path.split("."))
    if isinstance(value, Mapping) or (isinstance(value, list | tuple) and not field.many):
        return document
    if value in (None, field.unsaid, [], ()):
        return rest
    engine = rest.get("engine") or {}
    settings = engine.get("settings") or {} if isinstance(engine, Mapping) else None
    if not isinstance(settings, Mapping):
        return document
    return {**rest, "engine": {**engine, "settings": {field.setting: _text(value), **settings}}}


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _taken(node: Any, path: list[str]) -> tuple[Any, Any]:
    """What stands at `path`, None where nothing does, and the node without it."""
    name, *below = path
    if not isinstance(node, Mapping) or name not in node:
        return None, node
    if not below:
        return node[name], {key: each for key, each in node.items() if key != name}
    value, rest = _taken(node[name], below)
    # A section that had nothing else goes with its last field.
    kept = {name: rest} if rest or not node[name] else {}
    return value, {**{key: each for key, each in node.items() if key != name}, **kept}
