"""Names of the plugin that our verbs use: each is in the contract. A missing name is an error or a degradation."""

from inspect import signature

import pytest

from gaudi_runtime.catalog.release_pairs import RELEASES
from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.engines.vllm.workers.bridge import open_bridge
from gaudi_runtime.engines.vllm.workers.capabilities import (
    BATCH,
    CORRECTED_BATCH,
    DEFRAGMENTER,
    DRAFTS,
    HPU_GRAPHS,
    MANAGER,
    MARGIN,
    NO_COMPILE_METRIC,
    PREPARED,
    RUNNER,
    SAMPLED_BATCH,
    SEEDS,
    SETUP,
    PluginName,
    find_capabilities,
)
from gaudi_runtime.engines.vllm.workers.hpu import HpuVerbs
from gaudi_runtime.errors import ConfigError, DeviceUnavailable, EngineUnsupported, UnsupportedModel
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.engines.vllm.workers.card import Card
from tests.unit.runtime.engines.vllm.workers.driven import drive, plain
from tests.unit.runtime.engines.vllm.workers.stand_in import CONTRACT, bridge, plugin

OWNERS = {
    "HPUModelRunner": (*SETUP, *RUNNER, *MARGIN, *HPU_GRAPHS, *PREPARED),
    "HPUBucketingManager": MANAGER,
    "InputBatch": (*CORRECTED_BATCH, *SAMPLED_BATCH),
    "OnlineDefragmenter": DEFRAGMENTER,
}
USED = [(owner, name) for owner, names in OWNERS.items() for name in names]
NECESSARY = [each for each in USED if each[1].loss is None]
SPARED = [each for each in USED if each[1].loss is not None]
USED_NAMES = {(owner, name.name) for owner, name in USED}
UNUSED = [
    (owner, name)
    for owner in OWNERS
    for name in [*CONTRACT[owner]["attributes"], *CONTRACT[owner]["methods"]]
    if (owner, name) not in USED_NAMES and name != "__init__"
]


def label(case: tuple[str, PluginName]) -> str:
    return f"{case[0]}.{case[1].name}"


@pytest.mark.parametrize("case", USED, ids=label)
def test_contract_has_every_name_with_its_parameters(case: tuple[str, PluginName]) -> None:
    facts, name = CONTRACT[case[0]], case[1]
    if name.parameters is None:
        assert name.name in facts["attributes"]
    else:
        assert [each.partition("=")[0] for each in facts["methods"][name.name]] == list(name.parameters)


@pytest.mark.parametrize("case", NECESSARY, ids=label)
def test_missing_required_name_is_an_error_with_supported_releases(case: tuple[str, PluginName]) -> None:
    card = Card()
    with pytest.raises(EngineUnsupported) as refused:
        HpuVerbs(plugin(card, without=(case[0], case[1].name)), bridge(card))
    assert str(refused.value).startswith(f"{case[0]} of vllm-gaudi has no {case[1].name}")
    assert RELEASES in str(refused.value)
    assert card.log == []


@pytest.mark.parametrize("case", SPARED, ids=label)
async def test_missing_optional_name_is_a_degradation(case: tuple[str, PluginName]) -> None:
    card = Card()
    verbs = HpuVerbs(plugin(card, without=(case[0], case[1].name)), bridge(card))
    described, planned = plain(verbs.describe()), plain(verbs.plan([[1, 128, 0]], [[1, 1, 64]]))
    assert described["degradations"] + planned["degradations"] == [case[1].loss]
    report = drive(sim_config(), verbs, card)
    assert report.prompt.captured == report.prompt.planned > 0
    verbs.start_serving()
    assert verbs.counters()["met"] == []


@pytest.mark.parametrize(("owner", "name"), UNUSED)
async def test_name_outside_the_tables_is_not_used(owner: str, name: str) -> None:
    """A name outside the tables has no effect, so the tables list all names that the verbs use."""
    card = Card()
    verbs = HpuVerbs(plugin(card, without=(owner, name)), bridge(card))
    report = drive(sim_config(), verbs, card)
    assert report.decode.captured == report.decode.planned > 0
    verbs.start_serving()
    assert verbs.counters()["met"] == []


def test_method_with_different_parameters_is_reported_as_missing() -> None:
    runner = plugin(Card())
    runner.__class__._use_graphs = lambda self: True
    with pytest.raises(EngineUnsupported, match=r"has no _use_graphs\(attn_metadata, batch_size\)"):
        HpuVerbs(runner, bridge(Card()))


@pytest.mark.parametrize("missing", ["mem_get_info", "synchronize", "is_lazy", "mark_step", "torch"])
def test_incomplete_gaudi_software_is_an_error_naming_the_image(missing: str) -> None:
    with pytest.raises(DeviceUnavailable, match="use the runtime-hpu image"):
        bridge(Card(), missing)


def test_device_is_unavailable_without_gaudi_software() -> None:
    def load(name: str) -> object:
        raise ImportError(f"No module named {name!r}")

    with pytest.raises(DeviceUnavailable, match="No module named 'torch'"):
        open_bridge(load)


def test_missing_compile_only_mode_is_a_degradation() -> None:
    card = Card()
    found = find_capabilities(plugin(card), bridge(card, "habana_frameworks.torch.internal.bridge_config"))
    assert found.degradations == (
        "the bridge has no compile-only mode, so every bucket is also computed when it is compiled",
    )


@pytest.mark.parametrize("missing", ["habana_frameworks.torch.hpu.metrics", "graph_compilation"])
def test_missing_compile_metric_is_a_degradation(missing: str) -> None:
    card = Card()
    found = find_capabilities(plugin(card), bridge(card, missing))
    assert found.degradations == (NO_COMPILE_METRIC,)


def test_failing_compile_only_setting_disables_compile_only_mode() -> None:
    def env_setting(name: str, value: object) -> object:
        raise KeyError(name)

    card = Card()
    good = bridge(card)
    modules = {
        "torch": type("torch", (), {"hpu": type("hpu", (), {"mem_get_info": good.memory, "synchronize": print})}),
        "habana_frameworks.torch.core": type("core", (), {"mark_step": good.mark_step}),
        "habana_frameworks.torch.utils.internal": type("internal", (), {"is_lazy": good.is_lazy}),
        "habana_frameworks.torch.internal.bridge_config": type("config", (), {"env_setting": env_setting}),
    }
    assert open_bridge(modules.__getitem__).compile_only is None


def test_plugin_without_buckets_is_refused() -> None:
    runner = plugin(Card())
    runner.enable_bucketing = False
    del runner.graphed_buckets
    with pytest.raises(ConfigError, match="VLLM_ENABLE_BUCKETING is false"):
        HpuVerbs(runner, bridge(Card()))


def test_pooling_models_are_refused() -> None:
    runner = plugin(Card())
    runner.is_pooling_model = True
    with pytest.raises(UnsupportedModel, match="pooling models"):
        HpuVerbs(runner, bridge(Card()))


DRAFTED = [
    *(("HPUModelRunner", each) for each in DRAFTS),
    *(("InputBatch", each) for each in BATCH),
    *(("HPUBucketingManager", each) for each in SEEDS),
]


@pytest.mark.parametrize("case", DRAFTED, ids=label)
def test_contract_has_the_names_for_drafts(case: tuple[str, PluginName]) -> None:
    facts, name = CONTRACT[case[0]], case[1]
    recorded = facts["methods"].get(name.name, [])
    assert name.name in facts["attributes"] or {*(name.parameters or ())} <= {e.partition("=")[0] for e in recorded}


def test_drafts_with_contiguous_attention_are_refused() -> None:
    runner = plugin(Card(), drafts=3)
    runner.use_contiguous_pa = True
    with pytest.raises(ConfigError, match=r"Set VLLM_CONTIGUOUS_PA to false"):
        HpuVerbs(runner, bridge(Card()))


@pytest.mark.parametrize("case", DRAFTED, ids=label)
def test_drafts_are_refused_if_a_required_name_is_missing(case: tuple[str, PluginName]) -> None:
    runner = plugin(Card(), without=(case[0], case[1].name), drafts=3)
    with pytest.raises(EngineUnsupported, match=f"has no {case[1].name}"):
        HpuVerbs(runner, bridge(Card()))


def test_draft_models_are_refused() -> None:
    runner = plugin(Card(), drafts=3)
    runner.speculative_config.method = "eagle"
    with pytest.raises(UnsupportedModel, match=r"with method eagle is not supported, because .* Use method ngram"):
        HpuVerbs(runner, bridge(Card()))


@pytest.mark.parametrize(("owner", "name"), [("runner", "mem_margin"), ("manager", "num_hpu_blocks")])
def test_plugin_without_a_memory_split_is_refused(owner: str, name: str) -> None:
    runner = plugin(Card())
    setattr(runner if owner == "runner" else runner.bucketing_manager, name, None)
    with pytest.raises(EngineUnsupported, match="has not divided the device memory yet"):
        HpuVerbs(runner, bridge(Card()))


@pytest.mark.parametrize("mode", [ExecutionMode.LAZY, ExecutionMode.EAGER])
def test_modes_without_graphs_do_not_require_mem_margin(mode: ExecutionMode) -> None:
    card = Card(lazy=mode is ExecutionMode.LAZY)
    runner = plugin(card, graphs=False, without=("HPUModelRunner", "mem_margin"))
    assert find_capabilities(runner, bridge(card)).mode is mode


def test_fake_plugin_method_has_the_recorded_parameters() -> None:
    taken = signature(plugin(Card())._check_config)
    assert list(taken.parameters) == ["batch_size", "seq_len", "num_blocks", "attn_metadata", "warmup_mode"]
