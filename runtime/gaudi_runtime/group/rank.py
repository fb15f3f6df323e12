"""The verbs of one rank beside the leader, on an engine of its own. They block: call them in a worker thread."""

from collections.abc import Callable, Sequence
from typing import Any

from gaudi_runtime.buckets.bucket import Bucket, BucketPlan
from gaudi_runtime.contract.report import BucketPhase, Phase
from gaudi_runtime.engines.protocol import Meeting, OwnMemory, PodPart, Progress
from gaudi_runtime.group.messages import Verb

PHASES = {
    Verb.LOAD: Phase.LOADING,
    Verb.PROFILE: Phase.PROFILING,
    Verb.ALLOCATE: Phase.ALLOCATING,
    Verb.WARM: Phase.COMPILING,
    Verb.SAMPLER: Phase.SAMPLER,
    Verb.DEFRAGMENTER: Phase.DEFRAGMENTER,
    Verb.CAPTURE: Phase.CAPTURING,
    Verb.SERVE: Phase.SERVING,
}
"""What the report of a rank says while it does a verb; the others change nothing."""


class Rank:
    """`make` makes the engine when it is to be loaded; `progress` hears when something moved."""

    def __init__(self, make: Callable[[], OwnMemory | PodPart], progress: Progress) -> None:
        self._make, self._progress = make, progress
        self.engine: OwnMemory | PodPart | None = None

    def do(self, verb: Verb, arguments: Sequence[Any]) -> Any:
        """The answer as plain data. Raises what the engine raises."""
        if self.engine is None:
            self.engine = self._make()
        if isinstance(self.engine, PodPart):
            return self._start(self.engine, verb, arguments)
        return self._do(self.engine, verb, arguments)

    def _start(self, part: PodPart, verb: Verb, arguments: Sequence[Any]) -> None:
        """All but the start is the business of the leader's engine, which reaches these processes itself."""
        if verb is Verb.LOAD:
            part.join(Meeting(*arguments), self._progress)

    def _do(self, engine: OwnMemory, verb: Verb, arguments: Sequence[Any]) -> Any:
        match verb:
            case Verb.LOAD:
                engine.load(self._progress)
            case Verb.PROFILE | Verb.MEMORY:
                found = engine.profile() if verb is Verb.PROFILE else engine.memory()
                return found.free, found.total
            case Verb.BLOCK_BYTES:
                return engine.block_bytes()
            case Verb.ALLOCATE:
                engine.allocate(*arguments)
            case Verb.PLAN:
                prompt, decode = (tuple(Bucket(*each) for each in phase) for phase in arguments)
                engine.use_plan(BucketPlan(prompt, decode))
            case Verb.WARM:
                engine.warm(BucketPhase(arguments[0]), Bucket(*arguments[1]))
            case Verb.CAPTURE:
                return engine.capture(BucketPhase(arguments[0]), Bucket(*arguments[1]))
            case Verb.SAMPLER:
                engine.warm_sampler(arguments[0], self._progress)
            case Verb.DEFRAGMENTER:
                return engine.warm_defragmenter(self._progress)
            case Verb.SERVE:
                engine.start_serving()
        return None
