"""Reconciles and `gaudi-plan` need less than 512 MiB for a spec of any size that the schema allows."""

import json
from typing import Any

import pytest

from tests.support.builders import copied
from tests.unit.operator.core.resources import resource
from tests.unit.operator.core.stories import condition, served
from tests.unit.operator.hostile.limited import gaudi_plan, reconcile_twice
from tests.unit.operator.hostile.specs import ACCEPTED, BOTH_FULL, REFUSED, STAIRCASES

MIB = 2**20


def test_expensive_bucket_file_is_refused_with_few_calls() -> None:
    """A reconcile of this spec once took 33 s of processor time and 1.1 GiB of memory."""
    found = reconcile_twice(STAIRCASES, counted=True)
    assert (found.accepted["status"], found.accepted["reason"]) == ("False", "PlanImpossible")
    assert "the file has more than 1000 lines with buckets" in found.accepted["message"]
    assert found.objects == 0
    assert sum(found.calls) < 250_000
    assert found.grown < 64 * MIB


def test_refused_spec_keeps_serving_pods() -> None:
    cluster = served()
    pods, workloads = copied((cluster.kind("Pod"), cluster.kind("ReplicaSet")))
    cluster.change(**STAIRCASES)
    for _ in range(3):
        cluster.operate()
        cluster.controllers()
    assert condition(cluster, "PlanAccepted") == ("False", "PlanImpossible")
    assert condition(cluster, "Available") == ("True", "MinimumAvailable")
    assert (cluster.kind("Pod"), cluster.kind("ReplicaSet")) == (pods, workloads)


@pytest.mark.parametrize("name", ACCEPTED)
def test_large_plan_is_accepted(name: str) -> None:
    assert reconcile_twice(ACCEPTED[name]).accepted["status"] == "True"


@pytest.mark.parametrize("name", REFUSED)
def test_too_large_plan_is_refused_with_a_message(name: str) -> None:
    hostile, sentence = REFUSED[name]
    found = reconcile_twice(hostile)
    assert found.accepted["status"] == "False"
    assert sentence in found.accepted["message"]
    assert found.objects == 0


def document(spec: dict[str, Any]) -> str:
    return json.dumps(resource(**spec))


@pytest.mark.parametrize("arguments", [["buckets"], ["forecast"], ["forecast", "--strategies"]], ids=str)
def test_gaudi_plan_prints_the_largest_plan(arguments: list[str]) -> None:
    ended = gaudi_plan(*arguments, "-f", "-", stdin=document(BOTH_FULL))
    # The forecast has exit code 5, because the model is unknown.
    assert ended.returncode == (0 if arguments == ["buckets"] else 5), ended.stderr[-500:]


@pytest.mark.parametrize("name", ["staircases", "more than 250,000 buckets", "brackets"])
def test_gaudi_plan_refuses_expensive_documents_with_one_line(name: str) -> None:
    ended = gaudi_plan("buckets", "-f", "-", stdin=document(REFUSED[name][0]))
    assert ended.returncode == 2
    assert ended.stderr.startswith("gaudi-plan: ")
    assert len(ended.stderr.splitlines()) == 1
