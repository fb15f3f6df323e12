"""The fields of the spec that set the images, PersistentVolumeClaims and memory limits of a pod.

These values are read from the pod template of the revision, because observed pods are stored without images and
volumes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gaudi_operator.core.names import CONTAINER, RECIPE_PVC_SUFFIX
from gaudi_operator.core.observed import Manifest


@dataclass(frozen=True)
class _ImageField:
    """The field that sets an image, and the reference of the image."""

    field: str
    reference: str


SERVER_IMAGE = "spec.server.image (or the installation's default)"


def image_fields(template: Manifest, container: str) -> list[_ImageField]:
    """Return the images that a container needs: its own image and the image volumes that it mounts."""
    return [
        image_field
        for field, manifest in _containers_with_fields(template)
        if manifest["name"] == container
        for image_field in (_container_image_field(field, manifest), *_image_volume_fields(template, manifest))
    ]


def advise_on_image_field(message: str, images: Sequence[_ImageField]) -> str:
    """Return the advice for an image that cannot be pulled: the field that sets the image, and what to check.

    `message` is the kubelet's message. It quotes the image, maybe with a registry or a tag that the field omits.
    `images` are the images that the container needs.
    """
    if not images:
        return "Check the image's name and registry, its pull policy and spec.pod.imagePullSecrets."
    # Choose the longest match, because one image reference may be a prefix of another.
    longest_reference = max((image.reference for image in images if image.reference in message), key=len, default="")
    candidates = [image for image in images if image.reference == longest_reference] if longest_reference else images
    source = candidates[0].field if len(candidates) == 1 else f"one of {', '.join(image.field for image in candidates)}"
    return f"The image is set by {source}. Check its name and registry, its pull policy and spec.pod.imagePullSecrets."


def _container_image_field(field: str, container: Manifest) -> _ImageField:
    image_field = SERVER_IMAGE if field == _SERVER else f"{field}.image"
    return _ImageField(image_field, container.get("image") or "")


def _image_volume_fields(template: Manifest, container: Manifest) -> Iterator[_ImageField]:
    mounted_names = {mount["name"] for mount in container.get("volumeMounts") or ()}
    for volume in _volumes(template):
        if (image := volume.get("image")) and volume["name"] in mounted_names:
            field = _source_field(volume["name"], "ociImage")
            yield _ImageField(f"{field}.reference", image.get("reference") or "")


def claim_fields(template: Manifest, resource: str) -> dict[str, str]:
    """Return the PersistentVolumeClaims that a pod mounts, with the fields of the spec that name the claims.

    `resource` is the name of the GaudiInference.
    """
    fields_by_claim: dict[str, list[str]] = {}
    for volume in _volumes(template):
        if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
            fields_by_claim.setdefault(claim, []).append(_claim_field(volume["name"], claim, resource))
    return {claim: " and ".join(dict.fromkeys(fields)) for claim, fields in fields_by_claim.items()}


def _claim_field(volume: str, claim: str, resource: str) -> str:
    if volume == "recipes":
        # A claim with this name was created by the operator.
        return "spec.recipeCache" if claim == f"{resource}{RECIPE_PVC_SUFFIX}" else "spec.recipeCache.existingClaim"
    if volume == "fetched":
        return "spec.model.cache.existingClaim"
    return f"{_source_field(volume, 'persistentVolumeClaim')}.claimName"


def advise_on_memory_field(template: Manifest, container: str) -> str:
    """Return the advice for a container that was killed because memory ran out: its limit and the field to change."""
    for field, manifest in _containers_with_fields(template):
        if manifest["name"] == container:
            resources = "spec.pod.resources" if field == _SERVER else f"{field}.resources"
            if limit := ((manifest.get("resources") or {}).get("limits") or {}).get("memory"):
                return f"The memory limit of the container is {limit}. Raise {resources}.limits.memory."
            return (
                f"The container has no memory limit, and its node ran out of memory. Set {resources}.requests.memory."
            )
    return "Raise the memory limit of the container."


_SERVER = "spec.server"


def _containers_with_fields(template: Manifest) -> Iterator[tuple[str, Manifest]]:
    """Yield each container of a pod with the field of the spec that defines it."""
    spec = template.get("spec") or {}
    yield from ((_SERVER, container) for container in spec.get("containers") or () if container["name"] == CONTAINER)
    for container in spec.get("initContainers") or ():
        kind = "sidecars" if container.get("restartPolicy") == "Always" else "initContainers"
        yield f"spec.pod.{kind}[{container['name']}]", container


def _volumes(template: Manifest) -> Iterator[Manifest]:
    yield from (template.get("spec") or {}).get("volumes") or ()


_SOURCES = {"model": "spec.model.source", "seed-recipes": "spec.recipeCache"}


def _source_field(volume: str, kind: str) -> str:
    """Return the field of the spec that sets a volume with this kind of source."""
    if volume in _SOURCES:
        return f"{_SOURCES[volume]}.{kind}"
    adapter_index = volume.removeprefix("adapter-")
    if adapter_index != volume:
        return f"spec.model.lora.adapters[{adapter_index}].source.{kind}"
    return f"spec.pod.volumes[{volume}].{kind}"
