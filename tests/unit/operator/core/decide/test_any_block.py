"""No content of a block makes a reconcile fail: the operator refuses the spec, or writes the block into a child."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.resources import resource

NAMES = st.sampled_from(
    [
        *("args", "cidr", "claimName", "command", "configMap", "containers", "emptyDir", "env", "habana.ai/gaudi"),
        *("hostPath", "image"),
        *("ipBlock", "key", "labelSelector", "limits", "matchExpressions", "matchLabels", "metric", "name", "names"),
        *("namespaceSelector", "nodeAffinity", "nodeSelectorTerms", "operator", "optional", "path", "pods", "ports"),
        *("persistentVolumeClaim", "podSelector", "preference", "projected", "reference", "requests", "resources"),
        *("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"),
        *("restartPolicy", "scaleDown", "secretKeyRef", "securityContext", "sources", "subPath", "target", "type"),
        *("value", "valueFrom", "volumeMounts"),
    ]
)
TEXTS = st.sampled_from(["", "a", "Always", "HABANA_VISIBLE_DEVICES", "In", "10.0.0.0/8", "1e99", "/", "tiny-recipes"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


def entries(**declared: str) -> st.SearchStrategy[list[Any]]:
    """Return a strategy for lists of at most one block with these declared fields."""
    return st.lists(OBJECTS.map(lambda block: {**block, **declared}), max_size=1)


MOUNTS = entries(name="a", mountPath="/a")
CONTAINERS = st.lists(
    st.builds(lambda block, mounts: {**block, "name": "log", "volumeMounts": mounts}, OBJECTS, MOUNTS), max_size=1
)
SPECS = st.fixed_dictionaries(
    {
        "engine": st.fixed_dictionaries(
            {"env": st.lists(OBJECTS.map(lambda block: {"name": "A", "valueFrom": block}), max_size=1)}
        ),
        "autoscaling": st.fixed_dictionaries(
            {"maxReplicas": st.just(2)}, optional={"metrics": st.lists(OBJECTS, max_size=2), "behavior": OBJECTS}
        ),
        "networkAccess": st.fixed_dictionaries({"clients": st.lists(OBJECTS, max_size=2)}),
        "pod": st.fixed_dictionaries(
            {},
            optional={
                "affinity": OBJECTS,
                "topologySpreadConstraints": entries(topologyKey="zone", whenUnsatisfiable="ScheduleAnyway"),
                "volumes": entries(name="a"),
                "volumeMounts": MOUNTS,
                "initContainers": CONTAINERS,
                "sidecars": CONTAINERS,
            },
        ),
    }
)


@given(SPECS, SPECS)
@settings(max_examples=60, deadline=None)
def test_any_blocks_are_refused_or_written(first: dict[str, Any], second: dict[str, Any]) -> None:
    cluster = Cluster(resource(**first))
    cluster.operate()
    cluster.change(**second)
    cluster.operate()
