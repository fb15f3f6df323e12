"""Pod customizations that the API server must refuse."""

from typing import Any

from tests.cluster.bad_object import Bad

FOLDER = {"name": "shared", "emptyDir": {}}
SIDE = {"name": "log", "image": "log:1"}


def pod(**fields: Any) -> dict[str, Any]:
    """Return a spec with `fields` in spec.pod."""
    return {"pod": fields}


def mounted(path: str) -> dict[str, Any]:
    """Return a spec that declares a volume and mounts the volume at `path`."""
    return pod(volumes=[FOLDER], volumeMounts=[{"name": "shared", "mountPath": path}])


def volume(**fields: Any) -> dict[str, Any]:
    """Return a spec with one volume."""
    return pod(volumes=[{"name": "a", **fields}])


def with_sidecar(**fields: Any) -> dict[str, Any]:
    """Return a spec with one sidecar."""
    return pod(volumes=[FOLDER], sidecars=[{**SIDE, **fields}])


def anti_affinity(**term: Any) -> dict[str, Any]:
    """Return a spec with one required podAntiAffinity term."""
    return pod(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


def node_affinity(**term: Any) -> dict[str, Any]:
    """Return a spec with one required nodeAffinity term."""
    terms = {"nodeSelectorTerms": [term]}
    return pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


def topology_spread(**fields: Any) -> dict[str, Any]:
    """Return a spec with one topology spread constraint."""
    zone = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    return pod(topologySpreadConstraints=[{**zone, **fields}])


def env_from(**source: Any) -> dict[str, Any]:
    """Return a spec with an environment variable whose value comes from `source`."""
    return {"engine": {"env": [{"name": "A", "valueFrom": source}]}}


def over_limit(name: str, request: str | int, limit: str) -> tuple[Bad, ...]:
    """Return one spec per kind of container. The resource request of the container exceeds the limit."""
    resources = {"requests": {name: request}, "limits": {name: limit}}
    containers = {
        "the_runtime": pod(resources=resources),
        "a_sidecar": pod(sidecars=[{**SIDE, "resources": resources}]),
        "an_init_container": pod(initContainers=[{**SIDE, "resources": resources}]),
    }
    message = f"requests.{name} must be at most limits.{name}"
    return tuple(Bad(f"{name}_request_over_limit_of_{each}", message, spec) for each, spec in containers.items())


SECRET, CONFIG_MAP = {"name": "s", "key": "k"}, {"name": "c", "key": "k"}

PLATFORM_PODS = (
    Bad("root_group", "spec.pod.supplementalGroups[0] in body should be greater", pod(supplementalGroups=[0])),
    *over_limit("cpu", 4, "3500m"),
    *over_limit("memory", "2Gi", "2G"),
    *over_limit("ephemeral-storage", "1025Mi", "1Gi"),
    Bad(
        "volume_size_among_resources",
        'unknown field "spec.pod.resources.tmpSize"',
        pod(resources={"tmpSize": "1Gi"}),
    ),
    Bad("host_path_volume", 'unknown field "spec.pod.volumes[0].hostPath"', volume(hostPath={"path": "/"})),
    Bad("volume_with_two_sources", "exactly one of configMap", volume(emptyDir={}, secret={"secretName": "s"})),
    Bad("volume_without_source", "exactly one of configMap", volume()),
    Bad("volume_twice", 'Duplicate value: {"name":"shared"}', pod(volumes=[FOLDER, FOLDER])),
    Bad(
        "volume_named_as_the_operators",
        "one of the operator's own volumes",
        pod(volumes=[{"name": "tmp", "emptyDir": {}}]),
    ),
    Bad(
        "volume_named_as_an_adapters",
        "one of the operator's own volumes",
        pod(volumes=[{"name": "adapter-0", "emptyDir": {}}]),
    ),
    Bad("medium_unknown", 'Unsupported value: "HugePages"', volume(emptyDir={"medium": "HugePages"})),
    Bad(
        "projection_with_two_sources",
        "exactly one of configMap, secret or downwardAPI",
        volume(projected={"sources": [{"configMap": {"name": "a"}, "secret": {"name": "b"}}]}),
    ),
    Bad(
        "projected_token",
        'unknown field "spec.pod.volumes[0].projected.sources[0].serviceAccountToken"',
        volume(projected={"sources": [{"serviceAccountToken": {"path": "token"}}]}),
    ),
    Bad(
        "file_path_outside_its_volume",
        "must be a relative path that",
        volume(configMap={"name": "a", "items": [{"key": "a", "path": "a/../../b"}]}),
    ),
    Bad("mode_with_four_digits", "less than or equal to 511", volume(secret={"secretName": "a", "defaultMode": 2048})),
    Bad(
        "mount_without_volume",
        "spec.pod.volumeMounts: every name",
        pod(volumeMounts=[{"name": "a", "mountPath": "/a"}]),
    ),
    Bad("mount_relative", "must be an absolute path such as", mounted("etc/company")),
    Bad("mount_with_dots", "must be an absolute path such as", mounted("/etc/../models")),
    Bad("mount_with_slash_at_its_end", "must be an absolute path such as", mounted("/etc/company/")),
    Bad("mount_over_the_model", "one of the operator's own", mounted("/models")),
    Bad("mount_in_the_cache", "one of the operator's own", mounted("/cache/recipes")),
    Bad("mount_above_the_configuration", "one of the operator's own", mounted("/etc")),
    *(
        Bad(f"mount_at{path.replace('/', '_')}", "one of the operator's own", mounted(path))
        for path in (
            *("/adapters", "/fetched", "/cache", "/recipes", "/recipe-image", "/tmp", "/etc/gaudi"),
            *("/etc/gaudi-revisions", "/etc/gaudi-tls", "/dev", "/proc", "/sys"),
        )
    ),
    Bad(
        "two_mounts_at_a_path",
        "Duplicate value",
        pod(volumes=[FOLDER], volumeMounts=[{"name": "shared", "mountPath": "/a"}] * 2),
    ),
    Bad("sidecar_named_as_the_runtime", "must not be runtime", with_sidecar(name="runtime")),
    Bad(
        "sidecar_named_as_an_init_container", "spec.pod.sidecars must not", pod(initContainers=[SIDE], sidecars=[SIDE])
    ),
    Bad("sidecar_twice", 'Duplicate value: {"name":"log"}', pod(sidecars=[SIDE, SIDE])),
    Bad("sidecar_without_image", "spec.pod.sidecars[0].image: Required value", pod(sidecars=[{"name": "log"}])),
    Bad(
        "sidecar_with_security_context",
        'unknown field "spec.pod.sidecars[0].securityContext"',
        with_sidecar(securityContext={"privileged": True}),
    ),
    Bad(
        "sidecar_mounts_undeclared_volume",
        "spec.pod.sidecars: every name in volumeMounts",
        with_sidecar(volumeMounts=[{"name": "other", "mountPath": "/a"}]),
    ),
    Bad(
        "init_container_mounts_undeclared_volume",
        "spec.pod.initContainers: every name in volumeMounts",
        pod(initContainers=[{**SIDE, "volumeMounts": [{"name": "shared", "mountPath": "/a"}]}]),
    ),
    Bad(
        "sidecars_too_many", "must have at most 4 items", pod(sidecars=[{**SIDE, "name": f"l{at}"} for at in range(5)])
    ),
    Bad("pod_term_without_topology_key", "topologyKey: Required value", anti_affinity(labelSelector={})),
    Bad(
        "in_operator_without_values",
        "values is needed when operator is In",
        anti_affinity(topologyKey="zone", labelSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
    ),
    Bad(
        "exists_operator_with_values",
        "values must be left out when operator is Exists",
        node_affinity(matchExpressions=[{"key": "a", "operator": "Exists", "values": ["b"]}]),
    ),
    Bad(
        "gt_operator_without_number",
        "one whole number when operator is Gt",
        node_affinity(matchExpressions=[{"key": "a", "operator": "Gt", "values": ["many"]}]),
    ),
    Bad(
        "node_field_other_than_name",
        "must compare metadata.name",
        node_affinity(matchFields=[{"key": "zone", "operator": "In", "values": ["a"]}]),
    ),
    Bad(
        "preferred_weight_too_large",
        "weight in body should be less than or equal to 100",
        pod(
            affinity={
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 101, "preference": {}}],
                }
            }
        ),
    ),
    Bad("max_skew_zero", "maxSkew in body should be greater than or equal to 1", topology_spread(maxSkew=0)),
    Bad("min_domains_with_schedule_anyway", "minDomains is only for", topology_spread(minDomains=2)),
    Bad(
        "spread_with_label_key_in_selector",
        "matchLabelKeys must not name",
        topology_spread(labelSelector={"matchLabels": {"app": "a"}}, matchLabelKeys=["app"]),
    ),
    Bad(
        "spread_with_operator_label_key",
        "matchLabelKeys must not name",
        topology_spread(matchLabelKeys=["inference.gaudi.dev/name"]),
    ),
    Bad(
        "duplicate_spread_constraint",
        "Duplicate value",
        pod(
            topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}] * 2
        ),
    ),
    Bad(
        "variable_with_two_sources",
        "exactly one of secretKeyRef",
        env_from(secretKeyRef=SECRET, configMapKeyRef=CONFIG_MAP),
    ),
    Bad("variable_without_source", "exactly one of secretKeyRef", env_from()),
    Bad(
        "variable_from_unsupported_field", "fieldPath in body should match", env_from(fieldRef={"fieldPath": "spec.x"})
    ),
    Bad(
        "variable_from_unsupported_resource",
        'Unsupported value: "limits.gpu"',
        env_from(resourceFieldRef={"resource": "limits.gpu"}),
    ),
)
