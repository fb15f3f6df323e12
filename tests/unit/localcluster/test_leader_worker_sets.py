"""The LeaderWorkerSet controller as it is fitted to a small cluster."""

from localcluster.leader_worker_sets import IMAGE, fitted


def test_controller_runs_once_from_the_image_that_was_built_here() -> None:
    container = {"name": "manager", "image": "elsewhere", "resources": {"requests": {"cpu": 1}}, "securityContext": {}}
    deployment = {"kind": "Deployment", "spec": {"replicas": 2, "template": {"spec": {"containers": [container]}}}}
    (found,) = fitted(iter([deployment]))
    (manager,) = found["spec"]["template"]["spec"]["containers"]
    assert (found["spec"]["replicas"], manager["image"], manager["imagePullPolicy"]) == (1, IMAGE, "Never")
    assert (manager["resources"], manager["securityContext"]) == ({}, {"runAsUser": 65532})


def test_all_else_is_as_its_project_ships_it() -> None:
    service = {"kind": "Service", "spec": {"ports": [{"port": 443}]}}
    assert list(fitted(iter([service]))) == [service]
