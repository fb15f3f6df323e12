import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.core.children.runtime_config import runtime_config
from gaudi_operator.core.names import RESTARTED_AT_ANNOTATION
from gaudi_operator.core.resource import read_inference
from gaudi_operator.core.rollout.inputs import (
    VERSION,
    RevisionInputs,
    as_a_spec_says,
    present_form,
    revision_inputs,
    revision_name,
    same_inputs,
    stored_form,
)
from gaudi_runtime.contract.base import as_in_spec
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.knobs.render import render
from tests.builders import Object, merged
from tests.unit.operator.core.resources import CARD, inference

RECORDED = Path(__file__).parents[3] / "data" / "releases"
RELEASES = sorted(path.name for path in RECORDED.iterdir())
KINDS = ("ControllerRevision", "GaudiInference")


def inputs(**overrides: Any) -> RevisionInputs:
    return revision_inputs(inference(**overrides))


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"maxModelLen": 512}},
        {"model": {"servedNames": ["a"]}},
        {"accelerator": {"deviceMemory": "1Gi"}},
        {"parallelism": {"tensor": 2}},
        {"engine": {"maxNumSeqs": 8}},
        {"engine": {"image": "runtime:2"}},
        {"engine": {"env": [{"name": "A", "value": "1"}]}},
        {"engine": {"settings": {"A": "1"}}},
        {"bucketing": {"strategy": "Linear"}},
        {"bucketing": {"strategy": "Linear", "prompt": {"query": {"max": 64}}}},
        {"warmup": {"graphMemoryPercent": 20}},
        {"recipeCache": {"enabled": True}},
        {"pod": {"labels": {"team": "a"}}},
        {"pod": {"tolerations": [{"key": "gaudi"}]}},
        {"pod": {"drainSeconds": 60}},
        {"pod": {"affinity": {"podAffinity": {}}}},
        {"pod": {"volumes": [{"name": "a", "emptyDir": {}}]}},
        {"pod": {"sidecars": [{"name": "log", "image": "log:1"}]}},
        {"pod": {"userFromCluster": True}},
        {"readiness": {"stallTimeoutSeconds": 60}},
        {"annotations": {RESTARTED_AT_ANNOTATION: "2026-08-01"}},
    ],
    ids=str,
)
def test_change_of_what_a_pod_runs_makes_a_revision(change: dict[str, Any]) -> None:
    assert not same_inputs(stored_form(inputs()), inputs(**change))
    assert revision_name(inputs()) != revision_name(inputs(**change))


@pytest.mark.parametrize(
    "change",
    [
        {"replicas": 5},
        {"rollout": {"maxSurge": 2, "paused": True}},
        {"service": {"port": 8080}},
        {"readiness": {"minCapturedPromptPercent": 50, "onShortfall": "ServeAndWarn"}},
        {"autoscaling": {"maxReplicas": 4, "targetRunningRequests": 8}},
        {"route": {"parentRefs": [{"name": "gate"}]}},
        {"networkAccess": {"enabled": False}},
        {"annotations": {"somebody.else/s": "annotation"}},
    ],
    ids=str,
)
def test_change_of_what_surrounds_a_pod_makes_none(change: dict[str, Any]) -> None:
    assert same_inputs(stored_form(inputs()), inputs(**change))
    assert revision_name(inputs()) == revision_name(inputs(**change))


def test_field_of_a_newer_crd_at_its_default_makes_none() -> None:
    stored = stored_form(inputs())
    del stored["engine"]["prefixCaching"], stored["warmup"], stored["pod"]["drainSeconds"]
    assert same_inputs(stored, inputs())


def test_pods_of_before_their_fields_for_platforms_make_none() -> None:
    stored = stored_form(inputs())
    before = {"labels", "annotations", "nodeSelector", "tolerations", "imagePullSecrets", "runAsUser", "drainSeconds"}
    stored["pod"] = {name: value for name, value in stored["pod"].items() if name in before} | {"resources": {}}
    assert same_inputs(stored, inputs())


def test_field_of_a_newer_crd_beside_its_default_makes_one() -> None:
    stored = stored_form(inputs())
    del stored["engine"]["prefixCaching"]
    assert not same_inputs(stored, inputs(engine={"prefixCaching": True}))


def test_stored_field_that_is_unknown_here_makes_none() -> None:
    stored = stored_form(inputs())
    stored["engine"]["fromTheFuture"] = 7
    stored["speculation"] = {"draft": "tiny"}
    assert same_inputs(stored, inputs())


def test_value_that_was_taken_back_makes_one() -> None:
    assert not same_inputs(stored_form(inputs(accelerator={**CARD, "hugepages": "1Gi"})), inputs(accelerator=CARD))


def test_number_of_cards_that_parallelism_says_too_makes_none() -> None:
    kept = {**stored_form(inputs(accelerator=CARD)), "version": 2}
    assert same_inputs(present_form(merged(kept, {"accelerator": {"cards": 1}})), inputs(accelerator=CARD))


def test_labels_are_data_so_one_more_in_the_store_counts() -> None:
    assert not same_inputs(stored_form(inputs(pod={"labels": {"team": "a"}})), inputs())


@pytest.mark.parametrize("stored", [None, "", [], 3])
def test_store_that_is_no_object_matches_nothing(stored: object) -> None:
    assert not same_inputs(stored, inputs())


def test_inputs_of_the_first_release_have_their_former_names() -> None:
    stored = stored_form(inputs(engine={"deviceMemoryUtilizationPercent": 85}, warmup={"promptGraphPercent": 40}))
    del stored["version"], stored["engine"]["deviceMemoryUtilizationPercent"], stored["warmup"]["promptGraphPercent"]
    stored["engine"]["deviceMemoryUtilization"], stored["warmup"]["promptRatio"] = 0.85, 0.4
    desired = inputs(engine={"deviceMemoryUtilizationPercent": 85}, warmup={"promptGraphPercent": 40})
    assert same_inputs(present_form(stored), desired)
    assert not same_inputs(present_form(stored), inputs(warmup={"promptGraphPercent": 40}))


def test_inputs_of_a_newer_release_stay_as_they_are() -> None:
    stored = {**stored_form(inputs()), "version": VERSION + 1, "engine": {"deviceMemoryUtilization": "of another kind"}}
    assert present_form(stored) == stored


@given(
    st.dictionaries(st.sampled_from(["engine", "warmup", "version"]), st.recursive(st.integers() | st.text(), st.lists))
)
def test_whatever_stands_in_a_store_is_read(stored: dict[str, Any]) -> None:
    present_form(stored)


def recorded(release: str) -> dict[str, tuple[Object, Object]]:
    """Its resources by name, each with the inputs of its current revision."""
    objects: list[Object] = json.loads((RECORDED / release / "objects.json").read_text())
    revisions, resources = ([each for each in objects if each["kind"] == kind] for kind in KINDS)
    stored = {each["metadata"]["name"]: each["data"]["inputs"] for each in revisions}
    found = {}
    for each in resources:
        name = each["metadata"]["name"]
        identity = {"namespace": "default", "uid": "u"}
        current = f"{name}-{each['status']['revision']['current']}"
        found[name] = {**each, "metadata": {**each["metadata"], **identity}}, stored[current]
    return found


RESOURCES = [
    pytest.param(*found, id=f"{name} of {release}") for release in RELEASES for name, found in recorded(release).items()
]


@pytest.mark.parametrize(("resource", "kept"), RESOURCES)
def test_every_recorded_resource_runs_its_recorded_revision(resource: Object, kept: Object) -> None:
    assert same_inputs(present_form(kept), revision_inputs(read_inference(resource)))


@pytest.mark.parametrize(("resource", "kept"), RESOURCES)
def test_recorded_resource_that_is_spelled_anew_runs_it_too(resource: Object, kept: Object) -> None:
    spec = read_inference(resource).spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert spec["bucketing"]["strategy"] == as_in_spec(resource["spec"]["bucketing"]["strategy"])
    assert same_inputs(present_form(kept), revision_inputs(read_inference({**resource, "spec": spec})))


@pytest.mark.parametrize(("resource", "kept"), RESOURCES)
def test_revision_keeps_words_as_the_recorded_one(resource: Object, kept: Object) -> None:
    """Whoever steps back compares them letter by letter."""
    keeps = stored_form(revision_inputs(read_inference(resource)))
    for section, field in (("bucketing", "strategy"), ("warmup", "promptOrder"), ("warmup", "decodeOrder")):
        assert keeps[section][field] == kept[section][field]
    assert keeps["engine"].get("executionMode") == kept["engine"].get("executionMode")


def test_kept_words_are_shown_as_a_spec_says_them_now() -> None:
    kept = stored_form(inputs(bucketing={"strategy": "linear"}))
    assert kept["bucketing"]["strategy"] == "linear"
    assert as_a_spec_says(kept)["bucketing"]["strategy"] == "Linear"


def test_inputs_that_cannot_be_read_are_shown_as_they_are() -> None:
    assert as_a_spec_says({"model": "of the future"}) == {"model": "of the future"}


FORMER: Object = {
    "model": {"quantization": {"runtimeScales": True, "channelwise": False}, "allowLongMaxModelLen": True},
    "engine": {"layersPerGraph": 2},
    "warmup": {
        "compileThreads": 4,
        "multimodal": {"execute": True, "buckets": [1, 4], "resolutions": ["512x512", "64x64x2"]},
    },
}
NOW: Object = {
    "model": {"quantization": {"runtimeScales": None, "channelwise": None}, "allowLongMaxModelLen": None},
    "engine": {
        "layersPerGraph": None,
        "settings": {
            "RUNTIME_SCALE_PATCHING": "true",
            "VLLM_HPU_FORCE_CHANNEL_FP8": "false",
            "VLLM_CONFIG_HIDDEN_LAYERS": "2",
            "PT_HPU_COMPILE_THREAD_POOL_SIZE": "4",
            "VLLM_MM_WARMUP_OUTSIDE_COMPILE_ONLY": "true",
            "VLLM_MULTIMODAL_BUCKETS": "1,4",
            "VLLM_MULTIMODAL_RESOLUTIONS": "512x512,64x64x2",
            "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "true",
        },
    },
    "warmup": {"compileThreads": None, "multimodal": {"execute": None, "buckets": None, "resolutions": None}},
}
"""The same, as settings; what is None is taken out."""


def recorded_card() -> tuple[Object, Object]:
    """The resource `card` as the first release has left it, but for FORMER, and the data of its ControllerRevision."""
    objects = json.loads((RECORDED / "0.1.0" / "objects.json").read_text())
    mine = {each["kind"]: each for each in objects if each["metadata"]["name"].startswith("card")}
    resource = {**mine["GaudiInference"], "metadata": {"name": "card", "namespace": "default", "uid": "u"}}
    data = mine["ControllerRevision"]["data"]
    kept = {"inputs": data["inputs"], "config": json.loads(data["config"])}
    return merged(resource, {"spec": FORMER}), {name: merged(each, FORMER) for name, each in kept.items()}


@pytest.mark.parametrize("spelling", [{}, NOW], ids=["former fields", "settings"])
def test_field_that_became_a_setting_makes_no_revision(spelling: Object) -> None:
    resource, data = recorded_card()
    desired = revision_inputs(read_inference(merged(resource, {"spec": spelling})))
    assert same_inputs(present_form(data["inputs"]), desired)


def test_other_value_than_the_former_field_had_makes_a_revision() -> None:
    resource, data = recorded_card()
    spec = merged(NOW, {"engine": {"settings": {"VLLM_CONFIG_HIDDEN_LAYERS": "3"}}})
    desired = revision_inputs(read_inference(merged(resource, {"spec": spec})))
    assert not same_inputs(present_form(data["inputs"]), desired)


def test_former_fields_and_settings_name_the_same_revision() -> None:
    resource, _ = recorded_card()
    former, now = (read_inference(merged(resource, {"spec": spelling})) for spelling in ({}, NOW))
    assert revision_name(revision_inputs(former)) == revision_name(revision_inputs(now))
    assert runtime_config(former) == runtime_config(now)


def test_kept_configuration_with_former_fields_renders_as_settings_do() -> None:
    resource, data = recorded_card()
    graphs = {"engine": {"executionMode": "HpuGraphs"}}  # the default of 0.1.0
    rendered = render(runtime_config(read_inference(merged(resource, {"spec": merged(NOW, graphs)}))))
    assert render(RuntimeConfig.model_validate(data["config"])) == rendered
    assert rendered.env.keys() >= NOW["engine"]["settings"].keys()


def test_name_is_ten_hex_digits_and_stays_over_runs() -> None:
    assert len(revision_name(inputs())) == 10
    assert int(revision_name(inputs()), 16) >= 0
    assert revision_name(inputs()) == revision_name(inputs())
