"""The resource, read once: a typed spec and what its metadata says."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from threading import Lock
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from pydantic import ValidationError

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.api.v1alpha1.status import GaudiInferenceStatus
from gaudi_operator.core.answers import AT_ONCE, Answers
from gaudi_operator.core.names import RESTARTED_AT_ANNOTATION
from gaudi_operator.core.observed import Manifest
from gaudi_runtime.contract.config import ExecutionMode

T = TypeVar("T")
P = ParamSpec("P")


class SpecUnreadable(Exception):
    """The spec does not fit this operator's types; the message is a sentence."""


@dataclass(frozen=True)
class Identity:
    """What the metadata of a GaudiInference says."""

    name: str
    namespace: str
    uid: str
    generation: int
    deleting: bool
    restarted_at: str | None


@dataclass(frozen=True)
class Inference:
    """A GaudiInference as decisions see it.

    `kept_mode` is what the kept revision of this spec runs in; None where there is none yet. `answers` know what the
    plan of the spec is like.
    """

    identity: Identity
    spec: GaudiInferenceSpec
    kept_mode: ExecutionMode | None = None
    answers: Answers = field(default=AT_ONCE, compare=False, repr=False)
    memo: dict[Hashable, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    """The values of functions with @derived; a copy with other fields has none yet."""


def derived(function: Callable[Concatenate[Inference, P], T]) -> Callable[Concatenate[Inference, P], T]:
    """Compute a function of an Inference once: the value depends on it and on the arguments alone.

    A decision reads most of these values several times.
    """

    @wraps(function)
    def value(inference: Inference, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (function, args, *kwargs.items())
        if key not in inference.memo:
            inference.memo[key] = function(inference, *args, **kwargs)
        return cast("T", inference.memo[key])

    return value


def read_identity(resource: Manifest) -> Identity:
    """The metadata of a resource that an API server has accepted."""
    metadata = resource["metadata"]
    return Identity(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        deleting="deletionTimestamp" in metadata,
        restarted_at=(metadata.get("annotations") or {}).get(RESTARTED_AT_ANNOTATION),
    )


def read_inference(resource: Manifest, answers: Answers = AT_ONCE) -> Inference:
    """The whole resource. Raises SpecUnreadable, which a CRD of another release can cause."""
    try:
        spec = GaudiInferenceSpec.model_validate(resource["spec"])
    except ValidationError as error:
        raise SpecUnreadable(_sentence(error)) from error
    return Inference(read_identity(resource), spec, answers=answers)


class RecentInferences:
    """Reads resources, and knows those that were read last: reconciles of one follow one another within seconds, and
    most of what they work out follows from its spec alone.
    """

    def __init__(self, most: int) -> None:
        """Knows `most` of them, some 100 KB each."""
        self._most = most
        self._known: OrderedDict[str, tuple[Any, Inference]] = OrderedDict()
        self._lock = Lock()

    def read(self, resource: Manifest, answers: Answers) -> Inference:
        """As read_inference() does: the same object while nothing that it has has changed. Raises SpecUnreadable."""
        identity, spec = read_identity(resource), resource["spec"]
        with self._lock:
            known = self._known.get(identity.uid)
        if known and known[1].identity == identity and known[1].answers is answers and known[0] == spec:
            found = known[1]
        else:
            found = read_inference(resource, answers)
        with self._lock:
            self._known[identity.uid] = spec, found
            self._known.move_to_end(identity.uid)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return found


def read_status(resource: Manifest) -> GaudiInferenceStatus:
    """The status that stands on the resource; an empty one when there is none or another release wrote it."""
    written = resource.get("status")
    if not isinstance(written, Mapping):
        return GaudiInferenceStatus()
    try:
        return GaudiInferenceStatus.model_validate(written)
    # Our own status is only memory: what another release wrote is derived again from the cluster.
    except ValidationError:
        return GaudiInferenceStatus()


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ".".join(["spec", *map(str, first["loc"])])
    return (
        f"{path} cannot be read by this operator: {first['msg']}. "
        "The CRD and the operator may be of different releases; install the same release of both."
    )
