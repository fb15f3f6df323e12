"""The fields of the spec that set the images, PersistentVolumeClaims and memory limits of a pod.

These values are read from the pod template of the revision, because observed pods are stored without images and
volumes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gaudi_operator.core.names import CONTAINER, RECIPE_PVC_SUFFIX
from gaudi_operator.core.observed import Manifest


@dataclass(frozen=True)
class ImageField:
    """The field that sets an image, the field that sets its pull policy, and the reference of the image."""

    field: str
    policy: str
    reference: str


SERVER_IMAGE = "spec.server.image (or the installation's default)"


def image_fields(template: Manifest, container: str) -> list[ImageField]:
    """Return the images that a container needs: its own image and the image volumes that it mounts."""
    return [
        found
        for field, each in _containers_with_fields(template)
        if each["name"] == container
        for found in (_container_image_field(field, each), *_image_volume_fields(template, each))
    ]


def advise_on_image(said: str, images: Sequence[ImageField]) -> str:
    """Return the advice for an image that cannot be pulled: the field that sets the image, and what to check.

    The kubelet's message `said` quotes the image, maybe with a registry or a tag that the field omits. `images` are the
    images that the container needs.
    """
    if not images:
        return "Check the image's name and registry, its pull policy and spec.pod.imagePullSecrets."
    # Choose the longest match, because one image reference may be a prefix of another.
    longest = max((each.reference for each in images if each.reference in said), key=len, default="")
    found = [each for each in images if each.reference == longest] if longest else images
    sets = found[0].field if len(found) == 1 else f"one of {', '.join(each.field for each in found)}"
    policies = ", ".join(each.policy for each in found)
    return f"The image is set by {sets}. Check its name and registry, {policies} and spec.pod.imagePullSecrets."


def _container_image_field(field: str, container: Manifest) -> ImageField:
    image = SERVER_IMAGE if field == _SERVER else f"{field}.image"
    return ImageField(image, f"{field}.imagePullPolicy", container.get("image") or "")


def _image_volume_fields(template: Manifest, container: Manifest) -> Iterator[ImageField]:
    mounted = {each["name"] for each in container.get("volumeMounts") or ()}
    for volume in _volumes(template):
        if (image := volume.get("image")) and volume["name"] in mounted:
            field = _source_field(volume["name"], "ociImage")
            yield ImageField(f"{field}.reference", f"{field}.pullPolicy", image.get("reference") or "")


def claim_fields(template: Manifest, resource: str) -> dict[str, str]:
    """Return the PersistentVolumeClaims that a pod mounts, with the fields of the spec that name the claims.

    `resource` is the name of the GaudiInference.
    """
    found: dict[str, list[str]] = {}
    for volume in _volumes(template):
        if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
            found.setdefault(claim, []).append(_claim_field(volume["name"], claim, resource))
    return {claim: " and ".join(dict.fromkeys(fields)) for claim, fields in found.items()}


def _claim_field(volume: str, claim: str, resource: str) -> str:
    if volume == "recipes":
        # A claim with this name was created by the operator.
        return "spec.recipeCache" if claim == f"{resource}{RECIPE_PVC_SUFFIX}" else "spec.recipeCache.existingClaim"
    return f"{_source_field(volume, 'persistentVolumeClaim')}.claimName"


def advise_on_memory(template: Manifest, container: str) -> str:
    """Return the advice for a container that was killed because memory ran out: its limit and the field to change."""
    for field, found in _containers_with_fields(template):
        if found["name"] == container:
            resources = "spec.pod.resources" if field == _SERVER else f"{field}.resources"
            if limit := ((found.get("resources") or {}).get("limits") or {}).get("memory"):
                return f"The memory limit of the container is {limit}. Raise {resources}.limits.memory."
            return (
                f"The container has no memory limit, and its node ran out of memory. Set {resources}.requests.memory."
            )
    return "Raise the memory limit of the container."


_SERVER = "spec.server"


def _containers_with_fields(template: Manifest) -> Iterator[tuple[str, Manifest]]:
    """Yield each container of a pod with the field of the spec that defines it."""
    spec = template.get("spec") or {}
    yield from ((_SERVER, each) for each in spec.get("containers") or () if each["name"] == CONTAINER)
    for each in spec.get("initContainers") or ():
        kind = "sidecars" if each.get("restartPolicy") == "Always" else "initContainers"
        yield f"spec.pod.{kind}[{each['name']}]", each


def _volumes(template: Manifest) -> Iterator[Manifest]:
    yield from (template.get("spec") or {}).get("volumes") or ()


_SOURCES = {"model": "spec.model.source", "fetched": "spec.model.cache", "seed-recipes": "spec.recipeCache"}


def _source_field(volume: str, kind: str) -> str:
    """Return the field of the spec that sets a volume with this kind of source."""
    if volume in _SOURCES:
        return f"{_SOURCES[volume]}.{kind}"
    adapter = volume.removeprefix("adapter-")
    if adapter != volume:
        return f"spec.model.adapters[{adapter}].source.{kind}"
    return f"spec.pod.volumes[{volume}].{kind}"
