"""The LeaderWorkerSet controller adapted to a small cluster."""

from localcluster.leader_worker_sets import IMAGE, adapt_manifests


def test_controller_runs_one_replica_of_the_local_image() -> None:
    container = {"name": "manager", "image": "elsewhere", "resources": {"requests": {"cpu": 1}}, "securityContext": {}}
    deployment = {"kind": "Deployment", "spec": {"replicas": 2, "template": {"spec": {"containers": [container]}}}}
    (found,) = adapt_manifests(iter([deployment]))
    (manager,) = found["spec"]["template"]["spec"]["containers"]
    assert (found["spec"]["replicas"], manager["image"], manager["imagePullPolicy"]) == (1, IMAGE, "Never")
    assert (manager["resources"], manager["securityContext"]) == ({}, {"runAsUser": 65532})


def test_objects_other_than_the_controller_are_unchanged() -> None:
    service = {"kind": "Service", "spec": {"ports": [{"port": 443}]}}
    assert list(adapt_manifests(iter([service]))) == [service]
