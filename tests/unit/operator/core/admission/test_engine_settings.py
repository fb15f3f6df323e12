"""Engine settings of a resource: invalid settings are refused, and ignored settings are named in a message."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gaudi_operator.core.admission.engine_settings import why_engine_settings_are_ignored, why_engine_settings_are_wrong
from gaudi_operator.core.admission.spec_checks import first_spec_violation
from gaudi_operator.core.inference import Inference, read_inference
from gaudi_operator.core.names import PLAN_HASH_ANNOTATION
from gaudi_operator.core.rollout.revision import Revision
from gaudi_operator.core.rollout.revision_choice import choose_desired_revision
from gaudi_operator.core.status.conditions import FALSE, TRUE, Verdict
from gaudi_operator.core.status.spec_conditions import judge_spec_settings_effective
from gaudi_runtime.errors import Problem
from gaudi_runtime.knobs.setting_errors import setting_error
from tests.support.conformance import violations
from tests.support.examples import EXAMPLES
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import CARD, DEFAULTS, inference, resource
from tests.unit.operator.core.states import state_of
from tests.unit.operator.core.stories import condition, pod_names, revisions, served, status

WRONG = {"VLLM_DEFRAG_TRESHOLD": 8}


def sim(settings: dict[str, Any], **sections: Any) -> Inference:
    return inference(engine={"name": "sim", "settings": settings}, **sections)


def test_wrong_setting_is_refused_with_a_message() -> None:
    assert first_spec_violation(sim(WRONG), DEFAULTS) == Problem(
        "SettingsWrong",
        f"spec.engine.settings: {setting_error('VLLM_DEFRAG_TRESHOLD', '8')}.",
    )


SLICES = {"PT_HPU_SDPA_QKV_SLICE_MODE_FWD": "true"}


def test_slices_are_refused_with_strategy_optimal() -> None:
    refused = inference(engine={"name": "vllm", "settings": SLICES}, bucketing={"strategy": "Optimal"})
    assert why_engine_settings_are_wrong(refused) == (
        "spec.engine.settings: PT_HPU_SDPA_QKV_SLICE_MODE_FWD cannot be combined with bucketing.strategy Optimal, "
        "which plans queries of any length: use another strategy."
    )


def test_size_of_slices_without_slices_is_ignored() -> None:
    found = inference(accelerator=CARD, engine={"name": "vllm", "settings": {"PT_HPU_SDPA_BC_FACTOR": 512}})
    assert why_engine_settings_are_ignored(found) == (
        "spec.engine.settings PT_HPU_SDPA_BC_FACTOR is ignored without PT_HPU_SDPA_QKV_SLICE_MODE_FWD."
    )


def test_script_of_the_sim_engine_is_refused_for_vllm() -> None:
    refused = inference(engine={"name": "vllm", "settings": {"compileSeconds": "1"}})
    assert str(why_engine_settings_are_wrong(refused)).startswith("spec.engine.settings: compileSeconds is not a knob")


def test_script_of_the_sim_engine_is_accepted() -> None:
    assert why_engine_settings_are_wrong(sim({"compileSeconds": "1"})) is None


def test_argument_or_variable_owned_by_a_field_is_refused() -> None:
    engine = {
        "name": "vllm",
        "extraArgs": ["--max-num-seqs=8"],
        "env": [{"name": "VLLM_SKIP_WARMUP", "value": "true"}],
    }
    assert why_engine_settings_are_wrong(inference(engine=engine)) == (
        f"spec.engine.extraArgs: {setting_error('--max-num-seqs', '8')}; "
        f"spec.engine.env: {setting_error('VLLM_SKIP_WARMUP', 'true')}."
    )


def test_setting_in_env_is_refused_with_its_place() -> None:
    assert why_engine_settings_are_wrong(inference(engine={"env": [{"name": "LOG_LEVEL_ALL", "value": "5"}]})) == (
        "spec.engine.env: LOG_LEVEL_ALL must be set in spec.engine.settings."
    )


def test_token_in_clear_text_is_refused_but_not_by_reference() -> None:
    name, reference = "HUGGING_FACE_HUB_TOKEN", {"secretKeyRef": {"name": "hub", "key": "token"}}
    refused = why_engine_settings_are_wrong(inference(engine={"env": [{"name": name, "value": "hf_x"}]}))
    assert str(refused).startswith(f"spec.engine.env: {name} is in clear text")
    assert why_engine_settings_are_wrong(inference(engine={"env": [{"name": name, "valueFrom": reference}]})) is None


def test_unknown_variable_is_reported_with_the_nearest_name() -> None:
    found = inference(engine={"env": [{"name": "VLLM_PROMPT_BS_BUCKT_MIN", "value": "1"}]})
    assert why_engine_settings_are_wrong(found) is None
    verdict = judge_spec_settings_effective(state_of(inference=found))
    assert (verdict.status, verdict.reason) == (FALSE, "SettingsIgnored")
    assert verdict.message.startswith("spec.engine.env VLLM_PROMPT_BS_BUCKT_MIN is in no table of knobs")
    assert "VLLM_PROMPT_BS_BUCKET_MIN (set by spec.bucketing.prompt.batchSize.min)" in verdict.message


def test_many_wrong_settings_are_counted() -> None:
    sentence = why_engine_settings_are_wrong(sim({f"ZZZZ{number}": "1" for number in range(8)}))
    assert sentence is not None
    assert sentence.count("spec.engine.settings: ZZZZ") == 5
    assert sentence.endswith("; and 3 more.")


def test_unquoted_integer_is_accepted() -> None:
    assert why_engine_settings_are_wrong(sim({"LOG_LEVEL_ALL": 4})) is None


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_settings_of_the_examples_are_valid(example: Path) -> None:
    manifest = yaml.safe_load(example.read_text())
    metadata = {"namespace": "default", "uid": "u", **manifest["metadata"]}
    assert why_engine_settings_are_wrong(read_inference({**manifest, "metadata": metadata})) is None


def test_wrong_setting_stalls_and_keeps_serving_pods() -> None:
    cluster = served()
    pods, before = pod_names(cluster), revisions(cluster)
    cluster.change(engine={"settings": WRONG})
    cluster.settle()
    assert condition(cluster, "Stalled") == ("True", "SettingsWrong")
    assert condition(cluster, "PlanAccepted") == ("False", "SettingsWrong")
    assert (pod_names(cluster), revisions(cluster), status(cluster)["readyReplicas"]) == (pods, before, 2)
    assert violations(cluster.resource) == []


def test_every_unread_setting_is_named() -> None:
    found = sim({"VLLM_DEFRAG_THRESHOLD": 8}, bucketing={"strategy": "Exponential", "prompt": {"query": {"min": 128}}})
    verdict = judge_spec_settings_effective(state_of(inference=found))
    assert (verdict.status, verdict.reason) == (FALSE, "SettingsIgnored")
    assert [each.split(" is ignored ")[0] for each in verdict.message.split("; ")] == [
        "spec.engine.settings VLLM_DEFRAG_THRESHOLD",
        "spec.bucketing.prompt.query.min",
    ]
    assert verdict.message.endswith(".")


def test_effective_settings_are_not_reported() -> None:
    found = inference(accelerator=CARD, engine={"settings": {"LOG_LEVEL_ALL": 4}})
    assert judge_spec_settings_effective(state_of(inference=found)) == Verdict(
        TRUE, "SettingsRead", "Every setting of the spec has an effect."
    )


def test_many_ignored_settings_are_counted() -> None:
    names = [f"VLLM_PROFILE_{number}" for number in range(7)]
    sentence = why_engine_settings_are_ignored(
        inference(engine={"env": [{"name": name, "value": "1"} for name in names]})
    )
    assert sentence is not None
    assert sentence.endswith("; and 2 more.")


def test_ignored_setting_has_one_event() -> None:
    cluster = Cluster(resource(engine={"name": "sim", "settings": {"LOG_LEVEL_ALL": "4"}}))
    reasons = [event.reason for event in cluster.operate().events]
    assert "SettingsIgnored" in reasons
    assert "SettingsIgnored" not in [event.reason for event in cluster.operate().events]


def revision(**engine: Any) -> Revision:
    return choose_desired_revision(inference(accelerator=CARD, engine=engine), (), DEFAULTS)


def plan_hash_of(found: Revision) -> str:
    return str(found.template["metadata"]["annotations"][PLAN_HASH_ANNOTATION])


def test_changed_setting_is_a_new_revision_of_the_same_plan() -> None:
    before, after = revision(settings={"LOG_LEVEL_ALL": "4"}), revision(settings={"LOG_LEVEL_ALL": "5"})
    assert before.name != after.name
    assert before.config_map_name != after.config_map_name
    assert plan_hash_of(before) == plan_hash_of(after)


@pytest.mark.parametrize(
    "section",
    [
        {"engine": {"name": "vllm", "settings": {"VLLM_FULL_WARMUP": "1", "--max-cudagraph-capture-size": 512}}},
        {"model": {"kvCacheDtype": "fp8_inc", "quantization": {"method": "inc", "configFile": "a.json"}}},
        {"parallelism": {"tensor": 2, "expert": True}},
        {"engine": {"settings": {"VLLM_CONFIG_HIDDEN_LAYERS": "2"}}},
    ],
    ids=lambda section: "-".join(section),
)
def test_field_outside_the_plan_keeps_the_plan_hash(section: dict[str, Any]) -> None:
    plain, changed = inference(accelerator=CARD), inference(accelerator=CARD, **section)
    first, second = (choose_desired_revision(each, (), DEFAULTS) for each in (plain, changed))
    assert first.name != second.name
    assert plan_hash_of(first) == plan_hash_of(second)


def test_field_of_the_plan_changes_the_plan_hash() -> None:
    assert plan_hash_of(revision(maxNumSeqs=8)) != plan_hash_of(revision(maxNumSeqs=4))


def test_setting_of_the_plan_changes_the_plan_hash() -> None:
    assert plan_hash_of(revision(settings={"VLLM_CONTIGUOUS_PA": "false"})) != plan_hash_of(revision())


def test_setting_reaches_the_container_and_the_configuration() -> None:
    found = revision(settings={"LOG_LEVEL_ALL": "4"})
    variables = {each["name"]: each.get("value") for each in found.template["spec"]["containers"][0]["env"]}
    assert variables["LOG_LEVEL_ALL"] == "4"
    assert '"settings":{"LOG_LEVEL_ALL":"4"}' in found.config
