"""Simulated containers of the scripted kubelet. They warm up, stall or die, as a variable of the pod selects."""

import asyncio
from collections.abc import Callable

from gaudi_operator.core.names import PLAN_HASH_ANNOTATION
from gaudi_runtime.contract.report import Phase, PhaseProgressReport, RuntimeFailureReport
from tests.support.fake_runtime import PLANNED, FakeRuntime
from tests.support.kube_api import Object
from tests.world.runtime import Behaviour, behaviour

STEP_SECONDS = 0.15
STALLED_SECONDS = 2000
HOT_SECONDS = 3.0


class SimulatedRuntime(FakeRuntime):
    """One container instance. `changed` is called after each change, and `dies` when the container ends by itself."""

    def __init__(self, address: str, pod: Object, changed: Callable[[], None], dies: Callable[[str], None]) -> None:
        """Create the instance without opening its port."""
        super().__init__(address, pod["metadata"]["annotations"][PLAN_HASH_ANNOTATION])
        self.pod, self.behaviour = pod["metadata"]["name"], behaviour(pod)
        self._changed, self._dies = changed, dies
        self._life: asyncio.Task[None] | None = None

    @property
    def is_warm(self) -> bool:
        """Return whether the container serves and has captured enough graphs."""
        return self.serving and self.behaviour is not Behaviour.SHORT

    async def start(self) -> None:
        """Open the port and begin to warm up."""
        await super().start()
        self._life = asyncio.create_task(self._run())
        self._changed()

    async def stop(self) -> None:
        """End the container immediately."""
        if self._life:
            self._life.cancel()
        await super().stop()
        self._changed()

    async def _run(self) -> None:
        for phase in (Phase.LOADING, Phase.COMPILING):
            await self._step(phase, 0)
        if self.behaviour in (Behaviour.CRASH, Behaviour.OUT_OF_MEMORY):
            self._dies(self.pod)
        elif self.behaviour is Behaviour.STALL:
            self.update(since_progress_seconds=STALLED_SECONDS)
        elif self.behaviour is Behaviour.BROKEN:
            failure = RuntimeFailureReport(reason="ModelUnreadable", message="The model's weights cannot be read.")
            self.update(phase=Phase.FAILED, failure=failure)
        else:
            await self._finish()

    async def _finish(self) -> None:
        slow = 4 if self.behaviour is Behaviour.SLOW else 1
        await asyncio.sleep(STEP_SECONDS * slow)
        await self._step(Phase.CAPTURING, PLANNED // 2)
        captured = PLANNED // 2 if self.behaviour is Behaviour.SHORT else PLANNED
        cold = 50 if self.behaviour is Behaviour.COLD else 0
        self._report(Phase.SERVING, captured, recompiles_since_ready=cold, recent_recompiles=cold)
        if cold:
            await asyncio.sleep(HOT_SECONDS)
            self.update(recent_recompiles=0)

    async def _step(self, phase: Phase, captured: int) -> None:
        await asyncio.sleep(STEP_SECONDS)
        self._report(phase, captured)

    def _report(self, phase: Phase, captured: int, **fields: object) -> None:
        progress = PhaseProgressReport(planned=PLANNED, warmed=PLANNED, captured=captured)
        self.update(phase=phase, prompt=progress, decode=progress, **fields)

    def update(self, **changes: object) -> None:
        """Change fields of the report."""
        super().update(**changes)
        self._changed()
