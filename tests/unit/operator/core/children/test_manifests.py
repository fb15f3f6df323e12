"""Manifests of the children other than pods, one fact per test."""

import pytest

from gaudi_operator.core.actions import Apply
from gaudi_operator.core.children.child_actions import child_actions
from gaudi_operator.core.children.manifests import endpoint_url, pod_disruption_budget_manifest, service_manifest
from gaudi_operator.core.rendering.runtime_config import runtime_config_map
from gaudi_operator.core.rollout.workload_replicas import PlannedReplicas
from tests.unit.operator.core.resources import inference
from tests.unit.operator.core.states import state_of


def test_child_has_a_controller_reference_that_does_not_block_deletion() -> None:
    assert service_manifest(inference())["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "inference.gaudi.dev/v1alpha1",
            "kind": "GaudiInference",
            "name": "tiny",
            "uid": "uid-of-tiny",
            "controller": True,
            "blockOwnerDeletion": False,
        }
    ]


def test_config_map_is_immutable_and_named_by_its_content() -> None:
    one, other = runtime_config_map(inference().identity, "{}"), runtime_config_map(inference().identity, '{"a":1}')
    assert one["immutable"] is True
    assert one["data"] == {"config.json": "{}"}
    assert one["metadata"]["name"] != other["metadata"]["name"]


def test_service_has_only_the_model_port() -> None:
    assert service_manifest(inference(service={"port": 8080}))["spec"]["ports"] == [
        {"name": "http", "port": 8080, "targetPort": "http", "protocol": "TCP"}
    ]


def test_service_has_the_annotations_of_the_spec() -> None:
    found = service_manifest(inference(service={"annotations": {"a": "b"}}))["metadata"]
    assert (found["name"], found["annotations"]["a"]) == ("tiny", "b")


def test_endpoint_is_the_address_of_the_api() -> None:
    assert endpoint_url(inference()) == "http://tiny.models.svc:80/v1"


def test_port_with_a_certificate_has_protocol_https() -> None:
    secured = inference(server={"tlsSecretName": "chat-tls"})
    assert [each["appProtocol"] for each in service_manifest(secured)["spec"]["ports"]] == ["https"]
    assert endpoint_url(secured) == "https://tiny.models.svc:80/v1"


def test_service_account_is_created_only_for_pods_using_it() -> None:
    kinds = {
        action.manifest["kind"] for action in child_actions(state_of(), PlannedReplicas()) if isinstance(action, Apply)
    }
    assert "Service" in kinds
    assert "ServiceAccount" not in kinds


@pytest.mark.parametrize(("desired", "allowed", "stay"), [(4, 0, 3), (4, 3, 1), (1, 0, 0), (0, 0, 0)])
def test_disruption_budget_allows_at_least_one_eviction(desired: int, allowed: int, stay: int) -> None:
    found = pod_disruption_budget_manifest(inference(), desired, allowed)["spec"]
    assert (found["minAvailable"], found["unhealthyPodEvictionPolicy"]) == (stay, "AlwaysAllow")
