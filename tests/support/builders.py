"""Builders of small, valid objects. With these builders, a test contains only the fields that matter for the test."""

import pickle
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from gaudi_operator.api.v1alpha1.resource import API_VERSION, KIND

Object = dict[str, Any]
T = TypeVar("T")

_TINY_ON_CPU: Object = {
    "model": {"source": {"persistentVolumeClaim": {"claimName": "models", "path": "tiny"}}, "maxModelLen": 256},
    "accelerator": {"generation": "none", "deviceMemory": "512Mi"},
    "engine": {"name": "vllm", "blockSize": 16, "maxNumSeqs": 4},
}


def gaudi_inference(name: str = "tiny", namespace: str | None = None, **overrides: Any) -> Object:
    """Return a valid GaudiInference with vLLM on the CPU.

    `overrides` contains sections of the spec with the names of the manifest. The sections are merged level by level:
    `engine={"blockSize": 32}` changes the block size and keeps the other fields of the engine. The value None removes a
    field, and a list replaces a list.
    """
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": merged(_TINY_ON_CPU, overrides)}


def minimal_gaudi_inference(name: str = "tiny") -> Object:
    """Return a GaudiInference with only the required fields. All other fields have their defaults."""
    return gaudi_inference(name, engine=None)


def copied(value: T) -> T:
    """Return a deep copy of `value`. Pickle is ten times as fast as deepcopy, so long tests become shorter."""
    return cast(T, pickle.loads(pickle.dumps(value)))  # noqa: S301 - The bytes are our own.


def merged(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> Object:
    """Return `base` with `overrides` applied as a JSON merge patch. Neither argument is changed."""
    result = copied(dict(base))
    for key, value in overrides.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            inner = result.get(key)
            result[key] = merged(inner if isinstance(inner, dict) else {}, value)
        else:
            result[key] = copied(value)
    return result


def patched(manifest: Mapping[str, Any], steps: Iterable[Mapping[str, Any]]) -> Object:
    """Return `manifest` with the adds and removes of a JSON patch applied. `manifest` itself is not changed."""
    result = copied(dict(manifest))
    for step in steps:
        *path, last = step["path"].split("/")[1:]
        target = result
        for key in path:
            target = target[key]
        if step["op"] == "add":
            target[last] = step["value"]
        else:
            del target[last]
    return result
