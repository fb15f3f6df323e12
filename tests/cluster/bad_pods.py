"""Pod customizations that the API server must refuse."""

from typing import Any

from tests.cluster.bad_object import Bad

FOLDER = {"name": "shared", "emptyDir": {}}
SIDE = {"name": "log", "image": "log:1"}
NODES = {"parallelism": {"tensor": 2, "nodes": 2}}


def pod(**fields: Any) -> dict[str, Any]:
    """Return a spec with `fields` in spec.pod."""
    return {"pod": fields}


def mounted(path: str) -> dict[str, Any]:
    """Return a spec that declares a volume and mounts the volume at `path`."""
    return pod(volumes=[FOLDER], volumeMounts=[{"name": "shared", "mountPath": path}])


def with_sidecar(**fields: Any) -> dict[str, Any]:
    """Return a spec with one sidecar."""
    return pod(volumes=[FOLDER], sidecars=[{**SIDE, **fields}])


def over_limit(name: str, request: str | int, limit: str) -> Bad:
    """Return a spec whose runtime container requests more of a resource than its limit."""
    spec = pod(resources={"requests": {name: request}, "limits": {name: limit}})
    return Bad(f"{name}_request_over_limit_of_the_runtime", f"requests.{name} must be at most limits.{name}", spec)


SEVERAL_NODES = tuple(
    Bad(f"{field}_of_several_nodes", f"spec.pod.{field} is not available", {**pod(**{field: value}), **NODES})
    for field, value in (
        ("affinity", {}),
        ("topologySpreadConstraints", [{"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]),
        ("volumes", [FOLDER]),
        ("volumeMounts", [{"name": "shared", "mountPath": "/a"}]),
        ("initContainers", [SIDE]),
        ("sidecars", [SIDE]),
    )
)

PLATFORM_PODS = (
    Bad("root_group", "spec.pod.supplementalGroups[0] in body should be greater", pod(supplementalGroups=[0])),
    over_limit("cpu", 4, "3500m"),
    over_limit("memory", "2Gi", "2G"),
    over_limit("ephemeral-storage", "1025Mi", "1Gi"),
    Bad(
        "volume_size_among_resources",
        'unknown field "spec.pod.resources.tmpSize"',
        pod(resources={"tmpSize": "1Gi"}),
    ),
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
    Bad(
        "duplicate_spread_constraint",
        "Duplicate value",
        pod(
            topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}] * 2
        ),
    ),
)
