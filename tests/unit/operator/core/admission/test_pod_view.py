"""Reading sources, images, cards and host paths from a pod template."""

import pytest

from gaudi_operator.core.admission.pod_view import PodTemplateView, is_path_inside
from tests.support.builders import Object


def view(**spec: object) -> PodTemplateView:
    return PodTemplateView.model_validate({"spec": spec})


CLAIM: Object = {"persistentVolumeClaim": {"claimName": "a"}}
FOLDER: Object = {"hostPath": {"path": "/a"}}
IMAGE: Object = {"image": {"reference": "registry.test/a:1"}}


def test_sources_are_only_those_of_model_and_adapters() -> None:
    names = {"model": CLAIM, "modes": FOLDER, "model-2": FOLDER, "mode": FOLDER, "adapter-1": IMAGE, "adapters": FOLDER}
    found = view(volumes=[{"name": name, **source} for name, source in names.items()], containers=[])
    assert list(found.model_sources) == [("source", "persistentVolumeClaim"), ("lora.adapters.source", "ociImage")]


def test_host_paths_of_all_volumes_are_found() -> None:
    found = view(volumes=[{"name": name, **FOLDER} for name in ("model", "adapter-1", "data")])
    assert list(found.host_paths) == [
        ("spec.model.source.hostPath", "/a"),
        ("spec.model.lora.adapters.source.hostPath", "/a"),
        ("spec.pod.volumes data: hostPath", "/a"),
    ]


def test_images_of_all_containers_and_volumes_are_found() -> None:
    found = view(
        containers=[{"name": "runtime", "image": "a"}, {"name": "runtime-2", "image": "b"}],
        initContainers=[{"name": "get", "image": "c"}, {"name": "log", "image": "d", "restartPolicy": "Always"}],
        volumes=[{"name": name, **IMAGE} for name in ("model", "seed-recipes", "adapter-1", "data")],
    )
    assert list(found.images) == [
        ("spec.server.image", "a"),
        ("container runtime-2: image", "b"),
        ("spec.pod.initContainers get: image", "c"),
        ("spec.pod.sidecars log: image", "d"),
        ("spec.model.source.ociImage", "registry.test/a:1"),
        ("spec.recipeCache.ociImage", "registry.test/a:1"),
        ("spec.model.lora.adapters.source.ociImage", "registry.test/a:1"),
        ("spec.pod.volumes data: image", "registry.test/a:1"),
    ]


def test_variable_that_disables_cards_is_omitted() -> None:
    variables = [
        {"name": "HABANA_VISIBLE_DEVICES", "value": "none"},
        {"name": "HABANA_VISIBLE_DEVICES", "value": "all"},
        {"name": "HABANA_VISIBLE_DEVICES_", "value": "none"},
    ]
    found = view(containers=[{"name": "x", "env": variables}], initContainers=[{"name": "y", "env": variables}])
    assert list(found.variables) == [
        *(("container x", name) for name in ("HABANA_VISIBLE_DEVICES", "HABANA_VISIBLE_DEVICES_")),
        *(("spec.pod.initContainers y: env", name) for name in ("HABANA_VISIBLE_DEVICES", "HABANA_VISIBLE_DEVICES_")),
    ]


def test_cards_of_all_containers_are_counted() -> None:
    amounts = {"habana.ai/gaudi": "2", "memory": "64", "example.com/card": 1}
    found = view(
        containers=[{"name": "a", "resources": {"limits": amounts, "requests": {"habana.ai/gaudi": 2}}}],
        initContainers=[{"name": "b", "resources": {"requests": {"habana.ai/gaudi": "4"}}}],
    )
    assert found.card_count == 7


def test_resource_claims_are_named() -> None:
    claims = [{"name": "a", "resourceClaimTemplateName": "t"}, {"name": "b", "resourceClaimName": "c"}, {"name": "d"}]
    assert list(view(resourceClaims=claims).claim_templates) == ["t", "c"]


def test_annotations_of_the_operator_are_omitted() -> None:
    keys = ["inference.gaudi.dev/plan", "inference.gaudi.development/a", "team/a"]
    found = PodTemplateView.model_validate({"metadata": {"annotations": dict.fromkeys(keys, "")}})
    assert list(found.user_annotations) == ["inference.gaudi.development/a", "team/a"]


@pytest.mark.parametrize(
    ("path", "prefix", "below"),
    [
        ("/models", "/models", True),
        ("/models/llama/", "/models", True),
        ("//models//llama", "/models/", True),
        ("/etc", "/", True),
        ("/models-of-others", "/models", False),
        ("/models/../etc", "/models", False),
        ("/models/..data/llama", "/models", True),
        ("/etc", "/X", False),
        ("models", "/", False),
    ],
)
def test_prefix_matches_complete_folder_names(path: str, prefix: str, below: bool) -> None:
    assert is_path_inside(path, prefix) is below
