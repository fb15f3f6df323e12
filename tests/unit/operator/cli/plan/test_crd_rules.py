"""CRD rules that `gaudi-plan` evaluates; tests/cluster/test_plan_refuses.py compares them with the API server."""

import builtins
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from gaudi_operator.api.schema import Schema, structural_schema
from gaudi_operator.api.v1alpha1.resource import GaudiInference
from gaudi_operator.cli.plan.crd_rules import broken_rules, compile_rule
from gaudi_operator.cli.plan.document import read_plan_document
from gaudi_operator.cli.plan.faults import SpecRefused
from gaudi_operator.cli.plan.manifest import UNCHECKED
from gaudi_runtime.errors import ConfigError
from tests.cluster.bad_object import Bad
from tests.cluster.bad_objects import BAD_OBJECTS
from tests.support.builders import merged
from tests.support.examples import manifests
from tests.unit.operator.cli.plan.asked import INFERENCE, answer, plan, refusal

SCHEMA = structural_schema(GaudiInference)


def changed(**sections: Any) -> dict[str, Any]:
    return merged(INFERENCE, {"spec": sections})


def rules(node: Schema) -> Iterator[dict[str, Any]]:
    yield from node.get("x-kubernetes-validations", ())
    below = [*node.get("properties", {}).values(), node.get("items"), node.get("additionalProperties")]
    for each in below:
        if each:
            yield from rules(each)


def test_every_rule_compiles() -> None:
    found = list(rules(SCHEMA))
    assert len(found) > 90
    for rule in found:
        compile_rule(rule["rule"], rule.get("optionalOldSelf", False))


SHARED = {"name": "shared", "emptyDir": {}}
MESSAGES = {rule["message"] for rule in rules(SCHEMA)}


@pytest.mark.parametrize("bad", BAD_OBJECTS, ids=lambda bad: bad.case)
def test_invalid_object_is_refused(bad: Bad) -> None:
    with pytest.raises(ConfigError) as refused:
        read_plan_document(bad.manifest())
    if any(bad.message in message for message in MESSAGES):
        assert bad.message in str(refused.value)
        assert bad.path in str(refused.value)


BLOCK_SIZE = {"engine": {"blockSize": 512}}
BLOCK_SIZE_RULE = "spec.engine.blockSize must be at most model.maxModelLen"


@pytest.mark.parametrize(
    ("section", "fault"),
    [
        ({"replicas": -1}, "spec.replicas: Input should be greater than or equal to 0, got -1"),
        ({"rollout": {"maxSurge": "25"}}, "write 25 without quotes for a number"),
        ({"pod": {"imagePullSecrets": [{"name": "a"}, {"name": "a"}]}}, "each entry needs its own name"),
    ],
)
def test_broken_rules_are_listed_after_invalid_values(section: dict[str, Any], fault: str) -> None:
    said = refusal(changed(**BLOCK_SIZE, **section))
    assert f"{fault}; {BLOCK_SIZE_RULE}" in said


@pytest.mark.parametrize(
    "section",
    [
        {"accelerator": None},
        {"bucketing": {"strategy": "random"}},
        {"replicas": "2"},
        {"replicas": 2**63},
        {"pod": {"imagePullSecrets": [None]}},
        {"pod": {"imagePullSecrets": [{"name": "a" * 254}]}},
        {"pod": {"labels": {f"label-{number}": "a" for number in range(33)}}},
    ],
    ids=["missing", "unknown word", "text", "over 64 bits", "null", "long text", "long map"],
)
def test_rules_are_not_evaluated_with_invalid_types_or_sizes(section: dict[str, Any]) -> None:
    assert BLOCK_SIZE_RULE not in refusal(changed(**BLOCK_SIZE, **section))


def test_rule_of_both_schema_and_models_is_reported_once() -> None:
    with pytest.raises(SpecRefused) as refused:
        read_plan_document(changed(model={"source": {"hostPath": {"path": "/a"}}}))
    assert len(refused.value.sentences) == 1


@pytest.mark.parametrize("document", manifests().values(), ids=manifests())
def test_example_breaks_no_rule(document: dict[str, Any]) -> None:
    assert broken_rules(SCHEMA, "llama", document["spec"]) == ()


TOKENS = changed(engine={"name": "vllm", "maxNumBatchedTokens": 100, "maxNumSeqs": 128})


def test_broken_rule_makes_the_forecast_verdict_refused() -> None:
    result = plan(TOKENS, command="forecast")
    assert result.exit_code == 4
    first, *others = result.stdout.splitlines()
    assert first == "REFUSED: the API server refuses standard input"
    assert any(line.startswith("why: spec.engine.maxNumBatchedTokens must be at least blockSize") for line in others)
    found = answer(TOKENS, command="forecast")
    assert found["verdict"] == "REFUSED"
    assert found["problems"][0]["reason"] == "SchemaViolated"
    assert found["why"][0] in " ".join(result.stdout.split())


@pytest.mark.parametrize("command", ["buckets", "compare"])
def test_other_commands_refuse_with_exit_code_4(command: str) -> None:
    result = plan(TOKENS, command=command)
    assert (result.exit_code, result.stdout) == (4, "")
    assert "the API server refuses standard input: spec.engine.maxNumBatchedTokens must be" in result.stderr


def test_all_broken_rules_are_reported() -> None:
    spec = changed(engine={"name": "vllm", "blockSize": 512, "maxNumPrefillSeqs": 3})["spec"]
    said = " ".join(broken_rules(SCHEMA, "llama", spec))
    assert "blockSize must be at most model.maxModelLen" in said
    assert "maxNumPrefillSeqs must be at most maxNumSeqs" in said


def test_rule_of_the_object_name_is_evaluated() -> None:
    (said,) = broken_rules(SCHEMA, "l" * 46, INFERENCE["spec"])
    assert said.startswith("metadata.name")


@pytest.mark.parametrize(
    "path",
    [
        *("/models", "/adapters", "/fetched", "/cache", "/recipes", "/recipe-image", "/tmp"),
        *("/etc/gaudi", "/etc/gaudi-revisions", "/etc/gaudi-tls", "/dev", "/proc", "/sys"),
    ],
)
def test_mount_over_a_reserved_path_is_refused(path: str) -> None:
    mounts = [{"name": "shared", "mountPath": path}]
    (said,) = broken_rules(SCHEMA, "llama", changed(pod={"volumes": [SHARED], "volumeMounts": mounts})["spec"])
    assert said.startswith("spec.pod.volumeMounts: mountPath must not be, be inside, or contain ")


def test_broken_rule_of_a_list_entry_names_its_field() -> None:
    spec = changed(pod={"tolerations": [{"key": "a"}, {"key": "a", "operator": "Exists", "value": "b"}]})["spec"]
    (said,) = broken_rules(SCHEMA, "llama", spec)
    assert said.startswith("spec.pod.tolerations")


def test_null_is_replaced_by_the_default() -> None:
    assert broken_rules(SCHEMA, "llama", changed(parallelism={"tensor": None})["spec"]) == ()


@pytest.mark.parametrize(
    ("request_", "limit", "refused"), [("2Gi", "2G", True), ("1024Mi", "1Gi", False), (1, "2", False)]
)
def test_quantities_are_compared_by_amount(request_: str | int, limit: str, refused: bool) -> None:
    spec = changed(pod={"resources": {"requests": {"memory": request_}, "limits": {"memory": limit}}})["spec"]
    assert bool(broken_rules(SCHEMA, "llama", spec)) is refused


def test_missing_cel_runtime_causes_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gaudi_operator.cli.plan.crd_rules")
    real = builtins.__import__

    def without_cel(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("cel_expr_python"):
            raise ModuleNotFoundError(name, name="cel_expr_python")
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_cel)
    assert UNCHECKED in answer(TOKENS)["warnings"]
    assert any("not checked" in each for each in answer(TOKENS, command="forecast")["warnings"])
