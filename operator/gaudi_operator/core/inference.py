"""The GaudiInference as a parsed value: its typed spec, its metadata and its written status."""

import json
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from threading import Lock
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from pydantic import ValidationError

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.names import RESTARTED_AT_ANNOTATION
from gaudi_operator.core.observed import Manifest
from gaudi_runtime.contract.config import ExecutionMode
from gaudi_runtime.errors import Problem

T = TypeVar("T")
P = ParamSpec("P")


class SpecUnreadable(Exception):
    """The error that the spec does not match this operator's types. The message is a sentence."""


MOST_BLOCK_BYTES = 64 * 2**10
"""The maximum size of all blocks of a spec together, as JSON. The schema bounds only the other fields of a spec."""

BLOCKS = (
    ("engine", "env"),
    ("pod", "affinity"),
    ("pod", "topologySpreadConstraints"),
    ("pod", "volumes"),
    ("pod", "volumeMounts"),
    ("pod", "initContainers"),
    ("pod", "sidecars"),
    ("autoscaling", "metrics"),
    ("autoscaling", "behavior"),
    ("networkAccess", "clients"),
)
"""The sections and fields of a spec that contain blocks (api/schema_keywords.py)."""

MOST_LEVELS = 32
"""The maximum number of levels of a block. Kubernetes types have about ten, and the API server accepts 10,000."""

_OVERSIZED = "oversized"
"""The key of a message in a spec without its blocks. The API server removes such a field of a user."""


def drop_oversized_inference_blocks(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a spec for the store. Too large or deep blocks become a message for read_inference_sections().

    Without this bound, a spec of 1.5 MiB would take 40 MiB of memory, and decisions would fail for deep blocks.
    """
    sections = {name: section for name, section in spec.items() if isinstance(section, Mapping)}
    blocks = {path: block for path in BLOCKS if (block := sections.get(path[0], {}).get(path[1]))}
    # The schema bounds the other fields of a variable.
    if env := blocks.get(("engine", "env")):
        blocks["engine", "env"] = [variable.get("valueFrom") for variable in env if "valueFrom" in variable]
    deepest = next((path for path, block in blocks.items() if _is_deeper(block, MOST_LEVELS)), None)
    sizes = {path: 0 if deepest else len(json.dumps(block)) for path, block in blocks.items()}
    if not deepest and sum(sizes.values()) <= MOST_BLOCK_BYTES:
        return spec
    path = deepest or max(sizes, key=lambda each: sizes[each])
    fault = f"{sizes[path]} bytes as JSON, but all blocks of a spec together may have at most {MOST_BLOCK_BYTES} bytes"
    if deepest:
        fault = f"more than {MOST_LEVELS} levels"
    message = f"spec.{'.'.join(path)} has {fault}. Shorten the field."
    without_blocks = {
        name: {field: value for field, value in section.items() if (name, field) not in blocks}
        for name, section in sections.items()
    }
    return {**spec, **without_blocks, _OVERSIZED: message}


def _is_deeper(value: Any, levels: int) -> bool:
    """Return True if a JSON value has more than `levels` levels of objects and lists."""
    level = [value]
    for _ in range(levels + 1):
        parents = [each for each in level if isinstance(each, dict | list)]
        level = [child for each in parents for child in (each.values() if isinstance(each, dict) else each)]
    return bool(parents)


_STAND_INS = {
    "model": {"source": {"hostPath": {"path": "/"}}, "maxModelLen": 1},
    "accelerator": {"generation": "none"},
}
"""Values of the required sections of a spec whose own values cannot be read. Nothing is derived from them."""


@dataclass(frozen=True)
class InferenceIdentity:
    """The parts of a GaudiInference's metadata that decisions read."""

    name: str
    namespace: str
    uid: str
    generation: int
    deleting: bool
    restarted_at: str | None


@dataclass(frozen=True)
class Inference:
    """A GaudiInference with its typed spec.

    If the spec does not match this operator's types, `unreadable` is the problem, and `spec` contains defaults in place
    of the sections that cannot be read. Only gates and the counts of pods may then be derived from `spec`.
    `stored_mode` is the execution mode of the stored revision of this spec, or None if no revision is stored yet.
    """

    identity: InferenceIdentity
    spec: GaudiInferenceSpec
    stored_mode: ExecutionMode | None = None
    unreadable: Problem | None = None
    memo: dict[Hashable, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Cached values of functions with @derived. A copy with other fields starts with an empty cache."""


def cache_on_inference(function: Callable[Concatenate[Inference, P], T]) -> Callable[Concatenate[Inference, P], T]:
    """Cache the values of a function that depends only on an Inference and its other arguments.

    The cache is useful because a decision reads most of these values several times.
    """

    @wraps(function)
    def wrapper(inference: Inference, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (function, args, *kwargs.items())
        if key not in inference.memo:
            inference.memo[key] = function(inference, *args, **kwargs)
        return cast("T", inference.memo[key])

    return wrapper


def read_inference_identity(resource: Manifest) -> InferenceIdentity:
    """Return the identity of a resource from its metadata, which the API server has validated."""
    metadata = resource["metadata"]
    return InferenceIdentity(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        deleting="deletionTimestamp" in metadata,
        restarted_at=(metadata.get("annotations") or {}).get(RESTARTED_AT_ANNOTATION),
    )


def read_inference(resource: Manifest) -> Inference:
    """Return the parsed resource. Raises SpecUnreadable, for example if the CRD comes from another release."""
    inference = read_inference_sections(resource)
    if inference.unreadable:
        raise SpecUnreadable(inference.unreadable.message)
    return inference


def read_inference_sections(resource: Manifest) -> Inference:
    """Return the parsed resource with all sections of its spec that this operator can read."""
    identity, sections = read_inference_identity(resource), resource["spec"]
    oversized = Problem("SpecUnreadable", sections[_OVERSIZED]) if _OVERSIZED in sections else None
    try:
        return Inference(identity, GaudiInferenceSpec.model_validate(sections), unreadable=oversized)
    except ValidationError as error:
        unreadable = {name for fault in error.errors(include_url=False) for name in fault["loc"][:1]}
        readable = {name: section for name, section in sections.items() if name not in unreadable}
        spec = GaudiInferenceSpec.model_validate({**_STAND_INS, **readable})
        problem = oversized or Problem("SpecUnreadable", _describe_error(error))
        return Inference(identity, spec, unreadable=problem)


class InferenceCache:
    """A cache of recently parsed resources.

    A resource is often reconciled several times within seconds. Most derived values depend only on the spec, so the
    cached object is used again.
    """

    def __init__(self, max_resources: int) -> None:
        """Create a cache of at most `max_resources` resources. Each resource needs about 100 KB."""
        self._max_resources = max_resources
        self._entries: OrderedDict[str, tuple[Any, Inference]] = OrderedDict()
        self._lock = Lock()

    def read(self, resource: Manifest) -> Inference:
        """Return the parsed resource like read_inference_sections(). An unchanged resource comes from the cache."""
        identity, spec = read_inference_identity(resource), resource["spec"]
        with self._lock:
            entry = self._entries.get(identity.uid)
        if entry and entry[1].identity == identity and entry[0] == spec:
            inference = entry[1]
        else:
            inference = read_inference_sections(resource)
        with self._lock:
            self._entries[identity.uid] = spec, inference
            self._entries.move_to_end(identity.uid)
            while len(self._entries) > self._max_resources:
                self._entries.popitem(last=False)
        return inference


def read_inference_status(resource: Manifest) -> GaudiInferenceStatus:
    """Return the written status, or an empty status if it is missing or cannot be read."""
    status = resource.get("status")
    if not isinstance(status, Mapping):
        return GaudiInferenceStatus()
    try:
        return GaudiInferenceStatus.model_validate(status)
    # Ignore an unreadable status, for example from another release. The status is only a cache, and the operator
    # derives it from the cluster.
    except ValidationError:
        return GaudiInferenceStatus()


def _describe_error(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ".".join(["spec", *map(str, first["loc"])])
    return (
        f"{path} cannot be read by this operator: {first['msg']}. The CRD and the operator may be of different "
        "releases. Install the same release of both."
    )
