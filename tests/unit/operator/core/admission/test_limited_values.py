"""Reading limited values from the pods, inputs and children that the operator renders."""

from collections.abc import Callable, Iterable

from gaudi_operator.core.admission import limited_values
from gaudi_operator.core.admission.limited_values import LimitedObjects, LimitedValue
from tests.support.builders import Object
from tests.unit.operator.core.rendered_pod import stored

FOLDER: Object = {"hostPath": {"path": "/a"}}
IMAGE: Object = {"image": {"reference": "registry.test/a:1"}}


def fields(find: Callable[[LimitedObjects], Iterable[LimitedValue]], **spec: object) -> list[str]:
    """Return the fields of the values that `find` yields for a pod with this spec."""
    return [value.field for value in find(LimitedObjects(stored({"spec": spec})))]


def test_host_paths_of_all_volumes_are_found() -> None:
    volumes = [{"name": name, **FOLDER} for name in ("model", "adapter-1", "data")]
    assert fields(limited_values.limited_host_paths, volumes=volumes) == [
        "spec.model.source.hostPath /a",
        "spec.model.lora.adapters.source.hostPath /a",
        "spec.pod.volumes data: hostPath /a",
    ]


def test_images_of_all_containers_and_volumes_are_found() -> None:
    found = fields(
        limited_values.limited_images,
        containers=[{"name": "runtime", "image": "a"}],
        initContainers=[{"name": "get", "image": "c"}, {"name": "log", "image": "d", "restartPolicy": "Always"}],
        volumes=[{"name": name, **IMAGE} for name in ("model", "seed-recipes", "adapter-1", "data")],
    )
    assert found == [
        "spec.server.image a",
        "spec.pod.initContainers get: image c",
        "spec.pod.sidecars log: image d",
        "spec.model.source.ociImage registry.test/a:1",
        "spec.recipeCache.ociImage registry.test/a:1",
        "spec.model.lora.adapters.source.ociImage registry.test/a:1",
        "spec.pod.volumes data: image registry.test/a:1",
    ]


def test_only_the_value_that_hides_cards_is_omitted() -> None:
    variables = [
        {"name": "HABANA_VISIBLE_DEVICES", "value": "none"},
        {"name": "HABANA_VISIBLE_DEVICES", "value": "all"},
        {"name": "HABANA_VISIBLE_DEVICES_", "value": "none"},
    ]
    assert fields(limited_values.limited_variables, initContainers=[{"name": "y", "env": variables}]) == [
        "spec.pod.initContainers y: env HABANA_VISIBLE_DEVICES",
        "spec.pod.initContainers y: env HABANA_VISIBLE_DEVICES_",
    ]


def test_annotations_of_the_operator_are_omitted() -> None:
    keys = ["inference.gaudi.dev/plan", "inference.gaudi.development/a", "team/a"]
    rendered = LimitedObjects(stored({"metadata": {"annotations": dict.fromkeys(keys, "")}}))
    assert [value.value for value in limited_values.limited_annotations(rendered)] == keys[1:]
