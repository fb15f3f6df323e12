"""Refusals of `gaudi-plan`: the same objects as the API server refuses, with the messages of the same CEL rules."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gaudi_operator.api.schema import Schema, structural_schema
from gaudi_operator.api.v1alpha1.resource import GaudiInference
from tests.cluster.bad_object import Bad
from tests.cluster.bad_objects import BAD_OBJECTS
from tests.cluster.objects import Objects, Refused
from tests.support.examples import EXAMPLES
from tests.unit.operator.cli.plan.asked import plan

RULE = "blockSize must be at most model.maxModelLen"
NOT_EVALUATED = "some validation rules were not checked"


def with_broken_rule(case: str, message: str, **spec: object) -> Bad:
    """Return an object that has an invalid value and also breaks a rule."""
    return Bad(case, message, {"engine": {"blockSize": 512}, **spec})


EVALUATED = (
    with_broken_rule("rule_and_number_below_bound", RULE, replicas=-1),
    with_broken_rule("rule_and_number_above_bound", RULE, replicas=1001),
    with_broken_rule("rule_and_pattern", RULE, rollout={"maxSurge": "25"}),
    with_broken_rule("rule_and_empty_text", RULE, model={"source": {"persistentVolumeClaim": {"claimName": ""}}}),
    with_broken_rule("rule_and_repeated_entry", RULE, pod={"imagePullSecrets": [{"name": "a"}, {"name": "a"}]}),
)
PREVENTED = (
    with_broken_rule("rule_and_missing_field", NOT_EVALUATED, model={"maxModelLen": None}),
    with_broken_rule("rule_and_unknown_word", NOT_EVALUATED, bucketing={"strategy": "random"}),
    with_broken_rule("rule_and_text_as_number", NOT_EVALUATED, replicas="2"),
    with_broken_rule("rule_and_null_in_list", NOT_EVALUATED, pod={"imagePullSecrets": [None]}),
    with_broken_rule("rule_and_huge_number", NOT_EVALUATED, replicas=2**63),
    with_broken_rule("rule_and_long_text", NOT_EVALUATED, model={"servedNames": ["a" * 1025]}),
    with_broken_rule("rule_and_long_list", NOT_EVALUATED, model={"servedNames": [f"name-{i}" for i in range(17)]}),
    with_broken_rule("rule_and_long_map", NOT_EVALUATED, pod={"labels": {f"label-{i}": "a" for i in range(33)}}),
)


def rule_messages(node: Schema) -> Iterator[str]:
    """Yield the messages of all rules in a schema."""
    for rule in node.get("x-kubernetes-validations", ()):
        yield rule["message"]
    for below in (*node.get("properties", {}).values(), node.get("items"), node.get("additionalProperties")):
        if below:
            yield from rule_messages(below)


MESSAGES = frozenset(rule_messages(structural_schema(GaudiInference)))


def broken_rules(text: str) -> set[str]:
    """Return the rule messages that the text of a refusal contains."""
    return {message for message in MESSAGES if message in text}


def refusal(objects: Objects, bad: Bad) -> str:
    """Return the API server's message for a new object. Fail if the API server accepts the object."""
    with pytest.raises(Refused) as refused:
        objects.create(bad.manifest(), dry_run=True)
    return str(refused.value)


@pytest.mark.parametrize("bad", [*BAD_OBJECTS, *EVALUATED, *PREVENTED], ids=lambda bad: bad.case)
def test_plan_and_server_refuse_an_object_by_the_same_rules(objects: Objects, bad: Bad) -> None:
    result = plan(bad.manifest())
    assert result.exit_code in (2, 4), result.output
    assert broken_rules(result.stderr) == broken_rules(refusal(objects, bad))


@pytest.mark.parametrize("bad", [*EVALUATED, *PREVENTED], ids=lambda bad: bad.case)
def test_server_evaluates_rules_unless_a_fault_prevents_it(objects: Objects, bad: Bad) -> None:
    assert bad.message in refusal(objects, bad)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_accepted_by_the_server_and_plan(objects: Objects, namespace: str, example: Path) -> None:
    manifest = yaml.safe_load(example.read_text())
    objects.create(manifest, namespace, dry_run=True)
    result = plan(manifest)
    assert result.exit_code == 0, result.stderr
