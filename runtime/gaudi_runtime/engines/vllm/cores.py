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
    """The error that the engine cores `core_numbers` of `core_count` did not answer before the deadline."""

    def __init__(self, core_numbers: Sequence[int], core_count: int) -> None:
        super().__init__(core_numbers)
        cores = "core" if len(core_numbers) == 1 else "cores"
        self.subject = f"Engine {cores} {', '.join(map(str, core_numbers))} of vLLM" if core_count > 1 else "vLLM"


class EngineCores:
    """The engine cores of `engine`, which is vLLM's AsyncLLM with `core_count` cores, and calls to these cores."""

    def __init__(self, engine: Any, core_count: int = 1) -> None:
        """Check the private names for calls to several cores. Raises EngineUnsupported if vLLM lacks one."""
        self._engine, self._count = engine, core_count
        if core_count > 1:
            _check_names(engine.engine_core, core_count)

    async def call(self, method: str, arguments: tuple[Any, ...], deadline: float) -> list[list[Any]]:
        """Call a method of every worker and return the answers by core and rank. `deadline` is in seconds.

        Raises CoresTimedOut, or the error of the first core that fails.
        """
        # Call all cores at the same time. In each forward of a mixture-of-experts model, the ranks of one core wait for
        # the ranks of the other cores.
        calls = [asyncio.ensure_future(awaitable) for awaitable in self._calls(method, arguments)]
        try:
            done, _ = await asyncio.wait(calls, timeout=deadline, return_when=asyncio.FIRST_EXCEPTION)
            for future in done:
                future.result()
            if silent_cores := [number for number, future in enumerate(calls) if not future.done()]:
                raise CoresTimedOut(silent_cores, self._count)
            return [future.result() for future in calls]
        finally:
            for future in calls:
                future.cancel()

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
    if (actual := len(getattr(client, IDENTITIES))) != count:
        raise EngineUnsupported(
            f"vLLM started {actual} engine cores, but spec.parallelism.data is {count}. Remove every --data-parallel "
            "argument from spec.engine.extraArgs."
        )
