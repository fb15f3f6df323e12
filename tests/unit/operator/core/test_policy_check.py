"""The check of a new revision's bucket policy: refusals, and the decision that waits for the check."""

from typing import Any

import pytest

from gaudi_operator.core.actions import SetGate
from gaudi_operator.core.admission.engine_settings import engine_policy_check
from gaudi_operator.core.bucket_policy_check import BucketPolicyCheck, BucketPolicyCheckPending
from gaudi_operator.core.decide import decide
from gaudi_runtime.buckets.bucket_plan import PlanDropRule
from gaudi_runtime.errors import Problem
from tests.support.builders import merged
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import DEFAULTS, inference, resource
from tests.unit.operator.core.stories import condition, served, status

FILE = "(1, 16, 0)\n(1, 256, 0)\n([1, 2, 4], 1, [8, 64])"
GAPS = "(1, 16, 0)\n(1, 128, 0)\n([1, 2, 4], 1, [8, 64])"
IMPOSSIBLE = {"strategy": "Linear", "prompt": {"query": {"min": 0, "max": 512, "step": 512}}}


def refused(**spec: Any) -> Problem | None:
    return engine_policy_check(inference(**spec)).run()


def pending(check: BucketPolicyCheck) -> Problem | None:
    raise BucketPolicyCheckPending(check)


@pytest.mark.parametrize(
    ("bucketing", "facts"),
    [
        (
            {"strategy": "Linear", "prompt": {"query": {"min": 0, "max": 512, "step": 512}}},
            ["spec.bucketing.prompt.query: min is 0"],
        ),
        (
            {"strategy": "File", "file": "(1, 512, 0)\n(1, 1, 8)"},
            ["spec.bucketing: no prompt bucket", f"1 dropped because {PlanDropRule.OVER_BUDGET}"],
        ),
    ],
    ids=["range that contradicts itself", "no bucket"],
)
def test_impossible_plan_is_refused_with_its_field(bucketing: dict[str, Any], facts: list[str]) -> None:
    found = refused(bucketing=bucketing)
    assert found is not None
    assert found.reason == "PlanImpossible"
    assert found.message.endswith(".")
    assert [fact for fact in facts if fact not in found.message] == []


def test_batches_without_a_bucket_are_refused_with_an_example() -> None:
    assert refused(bucketing={"strategy": "File", "file": GAPS}) == Problem(
        "BucketsMissing",
        "spec.bucketing: 50.0 % of the prompt shapes that the limits admit have no bucket: 1 gap from (1, 129, 0) to "
        "(1, 256, 0). A request with such a batch would wait for a compile. Add buckets for these batches, or "
        "set spec.bucketing.gaps to Allow.",
    )


@pytest.mark.parametrize(
    ("file", "spec"),
    [(FILE, {}), (GAPS, {"bucketing": {"gaps": "Allow"}}), (GAPS, {"warmup": {"policy": "Skip"}})],
    ids=["no gaps", "allowed gaps", "no warm-up"],
)
def test_policy_without_relevant_gaps_is_accepted(file: str, spec: dict[str, Any]) -> None:
    assert refused(**merged({"bucketing": {"strategy": "File", "file": file}}, spec)) is None


def test_refused_policy_keeps_serving_pods() -> None:
    cluster = served()
    before = cluster.kind("Pod"), cluster.kind("ReplicaSet")
    cluster.change(bucketing=IMPOSSIBLE)
    cluster.operate()
    assert condition(cluster, "PlanAccepted") == ("False", "PlanImpossible")
    assert condition(cluster, "Available") == ("True", "MinimumAvailable")
    assert (cluster.kind("Pod"), cluster.kind("ReplicaSet")) == before


def test_stored_revision_needs_no_check() -> None:
    cluster = served()
    assert decide(cluster.observed(), DEFAULTS, pending).pending_check is None


def test_decision_waiting_for_a_check_has_no_actions() -> None:
    decision = decide(Cluster(resource()).observed(), DEFAULTS, pending)
    assert decision.pending_check == engine_policy_check(inference())
    assert not decision.actions
    assert not decision.events


def test_gate_opens_while_a_check_waits() -> None:
    cluster = with_closed_gate()
    decision = decide(cluster.observed(), DEFAULTS, pending)
    assert [each.open for each in decision.actions if isinstance(each, SetGate)] == [True]


def with_closed_gate() -> Cluster:
    """Return a cluster whose warm pod has no gate condition yet, and whose new spec is not checked yet."""
    cluster = served(replicas=1)
    [pod] = cluster.kind("Pod")
    pod["status"]["conditions"] = [each for each in pod["status"]["conditions"] if "warmed" not in each["type"]]
    cluster.change(engine={"maxNumSeqs": 3})
    return cluster


def test_gate_of_a_waiting_spec_has_an_event() -> None:
    assert "GateOpened" in [each.reason for each in decide(with_closed_gate().observed(), DEFAULTS, pending).events]


def test_key_distinguishes_policies_limits_memory_and_gaps() -> None:
    specs: list[dict[str, Any]] = [
        {},
        {"bucketing": {"strategy": "Linear"}},
        {"model": {"maxModelLen": 512}},
        {"accelerator": {"deviceMemory": "2276"}},
        {"warmup": {"policy": "Skip"}},
    ]
    assert len({engine_policy_check(inference(**spec)).key for spec in specs}) == len(specs)
    assert engine_policy_check(inference()).key == engine_policy_check(inference()).key


def test_status_has_no_plan_before_the_first_report() -> None:
    cluster = Cluster(resource())
    cluster.operate()
    assert "plan" not in status(cluster)
    assert condition(cluster, "PlanAccepted") == ("True", "Accepted")
