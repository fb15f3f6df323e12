"""The engine cores of vLLM, one for each copy of the weights (spec.parallelism.data), and calls to all of them.

With several cores, vLLM's own calls return only the answer of the first core. Therefore this module calls each core
through private names of vLLM's client. No other module uses these names, and the module checks them before the first
call.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import Any

from gaudi_runtime.catalog.release_pairs import CPU_RELEASE, RELEASES
from gaudi_runtime.errors import EngineUnsupported

CALL, IDENTITIES = "_call_utility_async", "core_engines"


class CoresTimedOut(Exception):
    """The error that the engine cores `numbers` of `count` did not answer before the deadline."""

    def __init__(self, numbers: Sequence[int], count: int) -> None:
        super().__init__(numbers)
        cores = "core" if len(numbers) == 1 else "cores"
        self.who = f"Engine {cores} {', '.join(map(str, numbers))} of vLLM" if count > 1 else "vLLM"


class EngineCores:
    """The engine cores of `engine`, which is vLLM's AsyncLLM with `count` cores, and calls to these cores."""

    def __init__(self, engine: Any, count: int = 1) -> None:
        """Check the private names for calls to several cores. Raises EngineUnsupported if vLLM lacks one."""
        self._engine, self._count = engine, count
        if count > 1:
            _check_names(engine.engine_core, count)

    async def call(self, method: str, arguments: tuple[Any, ...], deadline: float) -> list[list[Any]]:
        """Call a method of every worker and return the answers by core and rank. `deadline` is in seconds.

        Raises SilentCores, or the error of the first core that fails.
        """
        # Call all cores at the same time. In each forward of a mixture-of-experts model, the ranks of one core wait for
        # the ranks of the other cores.
        calls = [asyncio.ensure_future(each) for each in self._calls(method, arguments)]
        try:
            done, _ = await asyncio.wait(calls, timeout=deadline, return_when=asyncio.FIRST_EXCEPTION)
            for each in done:
                each.result()
            if silent := [number for number, each in enumerate(calls) if not each.done()]:
                raise CoresTimedOut(silent, self._count)
            return [each.result() for each in calls]
        finally:
            for each in calls:
                each.cancel()

    def _calls(self, method: str, arguments: tuple[Any, ...]) -> Iterator[Awaitable[list[Any]]]:
        # Do not use the timeout of vLLM's RPC. After a timeout, vLLM leaves the late answer in a queue, and the next
        # call would receive that answer.
        if self._count == 1:
            yield self._engine.collective_rpc(method, args=arguments)
            return
        client = self._engine.engine_core
        for identity in getattr(client, IDENTITIES):
            yield getattr(client, CALL)("collective_rpc", method, None, arguments, None, engine=identity)


def exit_codes(engine: Any) -> Mapping[str, int]:
    """Return the exit code of each engine core by name. The mapping is empty if this vLLM release has another API."""
    try:
        codes: Mapping[str, int] = engine.engine_core.resources.engine_manager.finished_procs()
    except AttributeError:
        return {}
    return codes


def _check_names(client: Any, count: int) -> None:
    missing = [] if hasattr(client, IDENTITIES) else [IDENTITIES]
    try:
        inspect.signature(getattr(client, CALL, None)).bind("method", engine=b"")  # type: ignore[arg-type]
    except (TypeError, ValueError):
        missing.append(f"{CALL}(method, engine=)")
    if missing:
        raise EngineUnsupported(
            f"{type(client).__name__} of vLLM has no {' and no '.join(missing)}, which data parallelism needs to "
            f"call each engine core. Use an image with {RELEASES} (on a CPU: vLLM {CPU_RELEASE}), or set "
            "spec.parallelism.data to 1."
        )
    if (found := len(getattr(client, IDENTITIES))) != count:
        raise EngineUnsupported(
            f"vLLM started {found} engine cores, but spec.parallelism.data is {count}. Remove every --data-parallel "
            "argument from spec.engine.extraArgs."
        )
