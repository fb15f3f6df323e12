"""Every API field that sets a knob changes the engine's variables or arguments."""

from typing import Any

import pytest

from gaudi_operator.core.rendering.runtime_config import runtime_config
from gaudi_runtime.contract.config import plan_hash
from gaudi_runtime.knobs.render import SEVERAL_WORDS, render_engine_options
from gaudi_runtime.knobs.table import ENGINE, KnobHome, KnobPlanEffect, knobs
from tests.support.builders import merged
from tests.unit.operator.core.resources import inference

BASE: dict[str, Any] = {
    "accelerator": {"generation": "gaudi3", "deviceMemory": None},
    "engine": {"name": "vllm", "executionMode": "TorchCompile", "prefixCaching": True},
    "bucketing": {"strategy": "PaddingAware"},
    "model": {"quantization": {"method": "inc", "configFile": "inc.json"}},
}
FIXED = {
    "server.apiKeySecretRef": "the value of a Secret stands in no configuration",
    "warmup.stallTimeoutSeconds": "the engine's own deadline is always out of the way",
    "recipeCache": "the runtime always keeps recipes on the pod's disk",
    "model.source": "every source is mounted at one place, of which the next field chooses a folder",
}
CHANGES: dict[str, Any] = {
    "bucketing.paddingAware.maxPaddingPercent": 50,
    "bucketing.strategy": "Linear",
    "engine.blockSize": 32,
    "engine.chunkedPrefill": True,
    "engine.deviceMemoryUtilizationPercent": 50,
    "engine.executionMode": "Lazy",
    "engine.maxNumBatchedTokens": 128,
    "engine.maxNumPrefillSeqs": 2,
    "engine.maxNumSeqs": 8,
    "engine.prefixCaching": False,
    "model.lora.adapters": [{"name": "sql", "source": {"ociImage": {"reference": "sql:1"}}}],
    "model.dtype": "bfloat16",
    "model.itemsPerPrompt.audio": 0,
    "model.itemsPerPrompt.image": 2,
    "model.itemsPerPrompt.video": 1,
    "model.kvCacheDtype": "fp8_inc",
    "model.lora.maxRank": 64,
    "model.lora.maxAdapters": 1,
    "model.maxModelLen": 512,
    "model.quantization.configFile": "other.json",
    "model.quantization.method": "fp8",
    "model.servedNames": ["a", "b"],
    "parallelism.data": 2,
    "parallelism.expert": True,
    "parallelism.pipeline": 2,
    "parallelism.tensor": 2,
    "warmup.policy": "Skip",
    "warmup.graphMemoryPercent": 30,
}
RANGES = {
    f"bucketing.{dimension}.{setting}": 8
    for dimension in ("prompt.batchSize", "prompt.query", "prompt.context", "decode.batchSize", "decode.blocks")
    for setting in ("min", "step", "max")
}
ADAPTERS = [{"name": name, "source": {"ociImage": {"reference": f"{name}:1"}}} for name in ("sql", "code")]
ALSO_NEEDED: dict[str, dict[str, Any]] = {
    "model.lora.maxRank": {"model": {"lora": {"adapters": ADAPTERS}}},
    "model.lora.maxAdapters": {"model": {"lora": {"adapters": ADAPTERS}}},
    "engine.chunkedPrefill": {"engine": {"prefixCaching": False}},
}
"""Further fields needed for a change of a field."""
NEEDS_TWO_FIELDS = "PT_HPU_ENABLE_LAZY_COLLECTIVES"
WITHOUT_A_CARD = "TORCHDYNAMO_DISABLE"
OWNED = [
    (knob.name, path)
    for knob in knobs().values()
    if knob.home is KnobHome.FIELD and knob.reader in ENGINE and knob.name not in (NEEDS_TWO_FIELDS, WITHOUT_A_CARD)
    for path in knob.use
    if path not in FIXED
]


def knob_value(name: str, overrides: dict[str, Any]) -> list[str]:
    """Return the value of one knob for the engine. For a knob with several words, later arguments are included."""
    found = render_engine_options(runtime_config(inference(**merged(BASE, overrides))))
    if name in SEVERAL_WORDS and name in found.args:
        return list(found.args[found.args.index(name) :])
    spellings = (name, name.replace("--", "--no-"))
    variables = [value for key, value in found.env.items() if key == name]
    return variables + [each for each in found.args if each.partition("=")[0] in spellings]


def override(path: str) -> dict[str, Any]:
    """Return spec overrides that change `path` from its value in BASE, with the other fields that the change needs."""
    value: Any = {**CHANGES, **RANGES}[path]
    for part in reversed(path.split(".")):
        value = {part: value}
    return merged(value, ALSO_NEEDED.get(path, {}))


@pytest.mark.parametrize(("name", "path"), OWNED, ids=str)
def test_field_changes_its_knob(name: str, path: str) -> None:
    assert knob_value(name, override(path)) != knob_value(name, {})


@pytest.mark.parametrize(("name", "path"), OWNED, ids=str)
def test_field_changes_the_plan_hash_when_its_knob_decides_buckets(name: str, path: str) -> None:
    before, after = (
        runtime_config(inference(**merged(BASE, each))) for each in (ALSO_NEEDED.get(path, {}), override(path))
    )
    changed = plan_hash(before.bucketing, before.limits) != plan_hash(after.bucketing, after.limits)
    assert changed == (KnobPlanEffect.BUCKETS in knobs()[name].plan_effects)


def test_collectives_depend_on_mode_and_parallelism() -> None:
    graphs, two = {"engine": {"executionMode": "HpuGraphs"}}, {"parallelism": {"tensor": 2}}
    assert knob_value(NEEDS_TWO_FIELDS, graphs) == knob_value(NEEDS_TWO_FIELDS, two) == []
    assert knob_value(NEEDS_TWO_FIELDS, merged(graphs, two)) == ["true"]


def test_eager_mode_is_set_without_a_card() -> None:
    cpu = {"accelerator": {"generation": "none", "deviceMemory": "1Gi"}}
    assert knob_value(WITHOUT_A_CARD, cpu) == []
    assert knob_value(WITHOUT_A_CARD, merged(cpu, {"engine": {"executionMode": "Eager"}})) == ["1"]


def test_fixed_fields_are_fields_of_engine_knobs() -> None:
    paths = {
        path for knob in knobs().values() if knob.home is KnobHome.FIELD and knob.reader in ENGINE for path in knob.use
    }
    assert paths & FIXED.keys() == FIXED.keys()


def test_checkpoint_folder_reaches_the_engine() -> None:
    source = {"persistentVolumeClaim": {"claimName": "models", "path": "other"}}
    assert knob_value("--model", {"model": {"source": source}}) == ["--model=/models/other"]
