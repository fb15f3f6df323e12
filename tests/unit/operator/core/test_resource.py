"""A spec is read or refused, and its derived values are computed once."""

from dataclasses import replace
from typing import Any, TypeVar

import pytest

from gaudi_operator.api.v1alpha1.rollout import Rollout
from gaudi_operator.api.v1alpha1.warmup import OnRecompiles
from gaudi_operator.core.inference import (
    MOST_LEVELS,
    SpecUnreadable,
    drop_oversized_inference_blocks,
    read_inference,
    read_inference_sections,
)
from gaudi_operator.core.rendering.runtime_config import runtime_config
from gaudi_runtime.contract.config import ExecutionMode
from tests.unit.operator.core.resources import inference, resource

T = TypeVar("T")
LARGE = "x" * 2**16


def test_unknown_value_makes_a_spec_unreadable() -> None:
    with pytest.raises(SpecUnreadable, match=r"^spec\.rollout\.type cannot be read .* 'SurgeThenInPlace' or 'In"):
        read_inference(resource(rollout={"type": "Sideways"}))


def test_readable_sections_of_an_unreadable_spec_are_read() -> None:
    found = read_inference_sections(
        resource(replicas=7, rollout={"type": "Sideways"}, readiness={"onRecompiles": "Ignore"})
    )
    assert found.unreadable
    assert found.unreadable.reason == "SpecUnreadable"
    assert (found.spec.replicas, found.spec.readiness.on_recompiles) == (7, OnRecompiles.IGNORE)
    assert found.spec.rollout == Rollout()


@pytest.mark.parametrize(
    ("section", "field", "block"),
    [
        ("pod", "affinity", {"nodeAffinity": LARGE}),
        ("pod", "volumes", [{"name": "a", "csi": LARGE}]),
        ("engine", "env", [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": LARGE}}}]),
        ("autoscaling", "metrics", [{"type": LARGE}]),
        ("networkAccess", "clients", [{"podSelector": {"matchLabels": {"a": LARGE}}}]),
    ],
)
def test_spec_with_large_blocks_is_unreadable(section: str, field: str, block: Any) -> None:
    spec = resource(replicas=7, readiness={"onRecompiles": "Ignore"})["spec"]
    spec[section] = {**spec.get(section, {}), **({"maxReplicas": 2} if section == "autoscaling" else {}), field: block}
    found = read_inference_sections({**resource(), "spec": drop_oversized_inference_blocks(spec)})
    assert found.unreadable
    assert found.unreadable.reason == "SpecUnreadable"
    assert found.unreadable.message.startswith(f"spec.{section}.{field} has 65")
    assert (found.spec.replicas, found.spec.readiness.on_recompiles) == (7, OnRecompiles.IGNORE)


def test_spec_with_deep_blocks_is_unreadable() -> None:
    block: Any = "x"
    for _ in range(MOST_LEVELS):
        block = [block]
    spec = resource(pod={"affinity": {"a": block[0]}})["spec"]
    assert drop_oversized_inference_blocks(spec) == spec
    spec["pod"]["affinity"] = {"a": block}
    found = read_inference_sections({**resource(), "spec": drop_oversized_inference_blocks(spec)})
    assert "spec.pod.affinity has more than 32 levels." in str(found.unreadable)


def test_blocks_are_large_together() -> None:
    half = "x" * 33_000
    spec = resource(pod={"affinity": {"a": half}}, autoscaling={"maxReplicas": 2, "behavior": {"b": half}})["spec"]
    assert "spec.pod.affinity has 33" in str(
        read_inference_sections({**resource(), "spec": drop_oversized_inference_blocks(spec)}).unreadable
    )


def test_spec_with_many_variables_is_read() -> None:
    env = [{"name": f"A{number}", "value": "x" * 1024} for number in range(64)]
    spec = resource(engine={"env": env}, pod={"affinity": {"a": "x" * 60_000}})["spec"]
    assert drop_oversized_inference_blocks(spec) == spec


def test_runtime_config_is_computed_once() -> None:
    one = inference()
    assert runtime_config(one) is runtime_config(one)


def test_runtime_config_of_a_copy_is_computed_again() -> None:
    one = inference()
    assert runtime_config(one).engine.execution_mode is not ExecutionMode.EAGER
    other = replace(one, stored_mode=ExecutionMode.EAGER)
    assert runtime_config(other).engine.execution_mode is ExecutionMode.EAGER


def test_computed_values_do_not_affect_equality() -> None:
    one, other = inference(), inference()
    runtime_config(one)
    assert one == other
