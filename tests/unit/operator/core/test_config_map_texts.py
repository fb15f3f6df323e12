"""Bucket files and traffic in ConfigMaps are part of the revision. A missing ConfigMap affects no pod."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.core.config_map_texts import insert_texts, referenced_texts
from gaudi_operator.core.observed import ConfigMapTextKey
from gaudi_runtime.contract.bucketing import MOST_TEXT
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import resource
from tests.unit.operator.core.stories import condition, pod_names, revisions

KEY = ConfigMapTextKey("buckets", "list")
NAMED: dict[str, Any] = {
    "strategy": "File",
    "fileFrom": {"configMapKeyRef": {"name": "buckets", "key": "list"}},
}
FILE = "(1, 16, 0)\n(1, 32, 0)\n(4, 1, 8)\n(4, 1, 64)\n"
TRAFFIC = {"configMapKeyRef": {"name": "traffic", "key": "week"}}


def test_text_replaces_its_reference() -> None:
    found = insert_texts(resource(bucketing=NAMED), {KEY: FILE})
    assert found["spec"]["bucketing"] == {"strategy": "File", "file": FILE}


def test_traffic_is_read_from_a_config_map() -> None:
    named = resource(bucketing={"strategy": "Optimal", "optimal": {"trafficFrom": TRAFFIC}})
    found = insert_texts(named, {ConfigMapTextKey("traffic", "week"): "decode 1 1 1 1"})
    assert found["spec"]["bucketing"]["optimal"] == {"traffic": "decode 1 1 1 1"}


def test_inserting_texts_does_not_change_the_resource() -> None:
    named = resource(bucketing=NAMED)
    insert_texts(named, {KEY: FILE})
    assert referenced_texts(named) == (KEY,)


@pytest.mark.parametrize("texts", [{}, {KEY: "x" * (MOST_TEXT + 1)}], ids=["missing", "too long"])
def test_unusable_text_keeps_its_reference(texts: dict[ConfigMapTextKey, str]) -> None:
    named = resource(bucketing=NAMED)
    assert insert_texts(named, texts) == named


@given(
    st.recursive(
        st.none() | st.text() | st.integers(),
        lambda inner: st.dictionaries(
            st.sampled_from(["bucketing", "fileFrom", "optimal", "trafficFrom", "configMapKeyRef", "name", "key"]),
            inner,
        ),
    )
)
def test_spec_of_any_shape_is_accepted_and_unchanged(spec: object) -> None:
    named = {"spec": spec}
    assert insert_texts(named, {}) == named


def waiting() -> Cluster:
    """Return a cluster whose resource refers to a missing ConfigMap."""
    cluster = Cluster(resource(bucketing=NAMED))
    cluster.operate()
    return cluster


def serving() -> Cluster:
    """Return a cluster whose resource refers to an existing ConfigMap and is rolled out."""
    cluster = Cluster(resource(replicas=2, bucketing=NAMED), texts={KEY: FILE})
    cluster.settle()
    return cluster


def test_missing_text_starts_no_pod() -> None:
    cluster = waiting()
    assert condition(cluster, "Ready") == ("False", "ConfigMapKeyMissing")
    assert not pod_names(cluster)


def test_changed_text_creates_a_revision() -> None:
    cluster = serving()
    before = revisions(cluster)
    cluster.texts = {KEY: FILE + "(2, 16, 0)\n"}
    cluster.settle()
    assert not before & revisions(cluster)


def test_deleted_text_keeps_the_pods() -> None:
    cluster = serving()
    before = pod_names(cluster)
    cluster.texts = {}
    cluster.settle()
    assert pod_names(cluster) == before
    assert condition(cluster, "Ready") == ("False", "ConfigMapKeyMissing")
