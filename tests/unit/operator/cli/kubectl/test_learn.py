"""`kubectl gaudi learn`: the pods that it queries, and its warning about a plan that no canary observes."""

import pytest

from gaudi_operator.cli.kubectl.learn import UNOBSERVED, learn_observation_warnings, pod_names_to_learn_from
from gaudi_operator.cli.plan.options import PatchForm
from tests.support.builders import gaudi_inference


def test_traffic_is_read_only_from_ready_non_terminating_pods() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    pods = [
        {"metadata": {"name": "serves"}, "status": ready},
        {"metadata": {"name": "ends", "deletionTimestamp": "now"}, "status": ready},
        {"metadata": {"name": "warms"}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        {"metadata": {"name": "new"}},
    ]
    assert pod_names_to_learn_from(pods) == ["serves"]


@pytest.mark.parametrize(
    ("canary", "form", "warnings"),
    [
        ({"observeSeconds": 0}, PatchForm.OPTIMAL, [UNOBSERVED]),
        ({"observeSeconds": 0}, PatchForm.FILE, []),
        ({"observeSeconds": 60}, PatchForm.OPTIMAL, []),
        ({}, PatchForm.OPTIMAL, []),
    ],
)
def test_learned_plan_without_canary_observation_causes_a_warning(
    canary: dict[str, int], form: PatchForm, warnings: list[str]
) -> None:
    metadata = {"namespace": "default", "uid": "1", "generation": 1}
    resource = gaudi_inference(rollout={"canary": canary})
    assert learn_observation_warnings({**resource, "metadata": {**resource["metadata"], **metadata}}, form) == warnings
