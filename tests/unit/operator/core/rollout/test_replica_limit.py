"""The replicas that a class allows of those that a spec requests."""

from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.inference_class import ClassLimits
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.rollout.revision_choice import choose_desired_revision
from gaudi_operator.core.rollout.workload_replicas import describe_excess_replicas, limit_replicas
from tests.unit.operator.core.limit_cases import LIMITED
from tests.unit.operator.core.pod_objects import replica_set
from tests.unit.operator.core.resources import CARD, DEFAULTS, inference, resource

VLLM = {"name": "vllm"}


def limited(limits: dict[str, Any], **spec: Any) -> tuple[int, int | None]:
    """Return (replicas, maximum of the autoscaler) of a new resource in a class with these limits."""
    asked = inference(**spec)
    revision = choose_desired_revision(asked, (), DEFAULTS)
    found = limit_replicas(asked, ClassLimits.model_validate(limits), revision, Observed(resource(**spec))).spec
    return found.replicas, found.autoscaling.max_replicas if found.autoscaling else None


@pytest.mark.parametrize(("limits", "spec", "excess", "allowed"), LIMITED, ids=str)
def test_excess_of_replicas_is_described(limits: dict[str, Any], spec: Any, excess: str, allowed: int) -> None:
    asked = inference(**spec)
    revision = choose_desired_revision(asked, (), DEFAULTS)
    assert describe_excess_replicas(asked, ClassLimits.model_validate(limits), revision) == excess


@pytest.mark.parametrize(("limits", "spec", "excess", "allowed"), LIMITED, ids=str)
def test_only_the_allowed_replicas_run(limits: dict[str, Any], spec: Any, excess: str, allowed: int) -> None:
    assert limited(limits, **spec)[0] == allowed


@pytest.mark.parametrize(
    ("limits", "spec", "allowed"),
    [
        ({}, {}, 99),
        ({"maxCards": 0}, {}, 99),
        ({"maxReplicas": 9, "maxCards": 20}, {}, 9),
        ({"maxReplicas": 9, "maxCards": 20}, {"engine": VLLM, "accelerator": CARD, "parallelism": {"tensor": 8}}, 2),
        ({"maxReplicas": 1, "maxCards": 20}, {"engine": VLLM, "accelerator": CARD, "parallelism": {"tensor": 8}}, 1),
        ({"maxCards": 20}, {"engine": VLLM, "accelerator": CARD, "parallelism": {"tensor": 2, "pipeline": 4}}, 2),
        (
            {"maxCards": 17},
            {"engine": {"name": "sim"}, "accelerator": CARD, "parallelism": {"tensor": 8, "nodes": 2}},
            2,
        ),
    ],
    ids=str,
)
def test_lowest_limit_applies_to_the_replicas(limits: dict[str, Any], spec: Any, allowed: int) -> None:
    assert limited(limits, replicas=99, **spec)[0] == allowed


@pytest.mark.parametrize(("limit", "requested", "allowed"), [(2, 4, 2), (1, 2, 1), (0, 2, 1), (4, 2, 2)])
def test_autoscaler_is_bounded_by_the_class(limit: int, requested: int, allowed: int) -> None:
    assert limited({"maxReplicas": limit}, autoscaling={"minReplicas": 1, "maxReplicas": requested})[1] == allowed


def test_minimum_of_the_autoscaler_follows_its_maximum() -> None:
    asked = inference(autoscaling={"minReplicas": 3, "maxReplicas": 4})
    limits = ClassLimits.model_validate({"maxReplicas": 2})
    found = limit_replicas(
        asked, limits, choose_desired_revision(asked, (), DEFAULTS), Observed(resource())
    ).spec.autoscaling
    assert found is not None
    assert (found.min_replicas, found.max_replicas) == (2, 2)


def test_replicas_that_already_run_are_kept() -> None:
    asked = inference(replicas=5)
    revision = choose_desired_revision(asked, (), DEFAULTS)
    running = Observed(resource(), replica_sets=(replica_set(revision.name, 3),))
    assert limit_replicas(asked, ClassLimits(max_replicas=2), revision, running).spec.replicas == 3
