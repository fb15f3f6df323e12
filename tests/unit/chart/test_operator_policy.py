"""The chart's policy for the operator's account accepts what the operator writes, and refuses what it never writes."""

import re
from functools import cache
from typing import Any

import pytest

from gaudi_operator.api.v1alpha1.network import ServiceType
from gaudi_operator.core.children.manifests import (
    autoscaler_manifest,
    network_policy_manifest,
    pod_disruption_budget_manifest,
    service_account_manifest,
    service_manifest,
)
from gaudi_operator.core.names import NAME_LABEL
from tests.support.builders import Object, merged
from tests.support.policy_evaluation import messages
from tests.unit.chart.rendering import of_kind, render
from tests.unit.operator.core.children.test_children_as_written import EXAMPLES, children
from tests.unit.operator.core.resources import DEFAULTS, inference

pytestmark = pytest.mark.timeout(1200)  # the first run builds Helm


def account_policy(**values: Any) -> dict[str, Any]:
    """Return the spec of the policy for the operator's account, from a release with `values`."""
    policies = of_kind(render(**values), "ValidatingAdmissionPolicy")
    (found,) = (each["spec"] for each in policies if each["metadata"]["name"].endswith("-account"))
    return dict(found)


def folders(**values: Any) -> str:
    (found,) = (each for each in account_policy(**values)["variables"] if each["name"] == "folders")
    return str(found["expression"]).partition("].filter(")[0]


def test_every_release_has_both_policies() -> None:
    names = {each["metadata"]["name"] for each in of_kind(render(), "ValidatingAdmissionPolicyBinding")}
    assert names == {"gaudi-operator-account", "gaudi-operator-revisions"}


def test_no_folder_is_allowed_by_default() -> None:
    assert folders(allowHostPath=[]).split() == ["["]


def test_allowed_host_paths_are_normalized_with_a_trailing_slash() -> None:
    entries = [{"prefix": "/models/./a//", "namespaces": ["team"], "groups": [3000]}, {"prefix": "/"}]
    assert re.findall(
        r"'prefix': dyn\((.*?)\), 'namespaces': dyn\((.*?)\), 'groups': dyn\((.*?)\)", folders(allowHostPath=entries)
    ) == [
        ('"/models/a/"', '["team"]', "[3000]"),
        ('"/"', "[]", "[]"),
    ]


@cache
def policy() -> Object:
    spec = account_policy(allowHostPath=[{"prefix": "/models"}])
    return {"spec": {**spec, "matchConditions": []}}


def refusals(new: Object, old: Object | None = None) -> list[str]:
    """Return the messages with which the policy refuses a write of the operator's account."""
    request = {"resource": {"resource": f"{new['kind'].lower()}s".replace("ys", "ies")}, "namespace": "models"}
    return messages(policy(), new, old, request=request)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_child_of_an_example_may_be_written(example: str) -> None:
    assert [refusals(child) for child in children(example).values()] == [[]] * len(children(example))


@pytest.mark.parametrize("service_type", ServiceType)
def test_service_of_every_type_may_be_written(service_type: ServiceType) -> None:
    written = service_manifest(
        inference(service={"type": service_type, "annotations": {"a/b": "c"}}, networkAccess=CLIENTS)
    )
    defaults = {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ipFamilies": ["IPv4"], "sessionAffinity": "None"}
    stored = merged(
        written, {"spec": {**defaults, "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster"}}
    )
    by_webhook = merged(written, {"spec": {"loadBalancerClass": "service.k8s.aws/nlb"}})
    assert refusals(written) == refusals(stored, stored) == refusals(by_webhook) == []


CLIENTS: Object = {"from": "Clients", "clients": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}
TINY = inference(autoscaling={"minReplicas": 1, "maxReplicas": 2})
SERVICE, NETWORK_POLICY = service_manifest(TINY), network_policy_manifest(TINY, DEFAULTS)
ACCOUNT = service_account_manifest(TINY.identity)
BUDGET = pod_disruption_budget_manifest(TINY, 2, 1)
AUTOSCALER = autoscaler_manifest(TINY, TINY.spec.autoscaling, 300) if TINY.spec.autoscaling else {}
REPLICA_SET = children("tiny-vllm-cpu")["workload"]
SELECTS = "The account of gaudi-operator may select only pods of the GaudiInference that owns the object."
FIELDS = "The account of gaudi-operator may write only Services with the fields that its own manifests have"
SECRETS = "The account of gaudi-operator may write only service accounts without Secrets."
SCALES = "The account of gaudi-operator may scale only the GaudiInference that owns the autoscaler."


DNS = {"app": "dns"}
OTHERS = {"matchLabels": DNS}
EXPRESSION = {"matchLabels": None, "matchExpressions": [{"key": "app", "operator": "In", "values": ["dns"]}]}
HOSTILE: dict[str, tuple[Object, str]] = {
    "external IP": (merged(SERVICE, {"spec": {"externalIPs": ["1.1.1.1"]}}), FIELDS),
    "external name": (merged(SERVICE, {"spec": {"type": "ExternalName", "externalName": "evil.example.com"}}), FIELDS),
    "address of a load balancer": (merged(SERVICE, {"spec": {"loadBalancerIP": "1.1.1.1"}}), FIELDS),
    "pods of others": (merged(SERVICE, {"spec": {"selector": {NAME_LABEL: "other"}}}), SELECTS),
    "no pods": (merged(SERVICE, {"spec": {"selector": None}}), SELECTS),
    "pods of others in a network policy": ({**NETWORK_POLICY, "spec": {"podSelector": OTHERS}}, SELECTS),
    "all pods in a network policy": ({**NETWORK_POLICY, "spec": {"podSelector": {}, "ingress": []}}, SELECTS),
    "pods of others in a budget": ({**BUDGET, "spec": {"maxUnavailable": 0, "selector": OTHERS}}, SELECTS),
    "all pods in a budget": (merged(BUDGET, {"spec": {"selector": None}}), SELECTS),
    "pods of others in a ReplicaSet": (
        merged(REPLICA_SET, {"spec": {"selector": EXPRESSION, "template": {"metadata": {"labels": DNS}}}}),
        SELECTS,
    ),
    "a Deployment": (
        merged(AUTOSCALER, {"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment"}}}),
        SCALES,
    ),
    "another resource": (merged(AUTOSCALER, {"spec": {"scaleTargetRef": {"name": "other"}}}), SCALES),
    "Secret of a service account": (merged(ACCOUNT, {"secrets": [{"name": "a"}]}), SECRETS),
    "pull secret of a service account": (merged(ACCOUNT, {"imagePullSecrets": [{"name": "a"}]}), SECRETS),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_object_that_reaches_others_is_refused(case: str) -> None:
    manifest, message = HOSTILE[case]
    (refusal,) = refusals(manifest)
    assert refusal.startswith(message)


def test_external_address_of_a_user_does_not_block_updates() -> None:
    old = merged(SERVICE, {"spec": {"externalIPs": ["10.1.1.1"], "loadBalancerIP": "10.1.1.2"}})
    assert refusals(merged(old, {"spec": {"ports": [{"port": 81}]}}), old) == []
    (refusal,) = refusals(merged(old, {"spec": {"externalIPs": ["10.1.1.3"]}}), old)
    assert refusal.startswith(FIELDS)
