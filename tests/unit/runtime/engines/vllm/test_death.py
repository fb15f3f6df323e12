"""Messages about a dead process of vLLM."""

from types import SimpleNamespace
from typing import Any

import pytest

from gaudi_runtime.engines.vllm.ranks import dead_engine_error, dead_ranks_error


def ended(**codes: int) -> Any:
    """Return an engine whose cores have these exit codes."""
    manager = SimpleNamespace(finished_procs=lambda: codes)
    return SimpleNamespace(engine_core=SimpleNamespace(resources=SimpleNamespace(engine_manager=manager)))


DIED = "A process of vLLM died"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (-9, "Core was ended by SIGKILL, most often because memory ran out: give the pod more memory."),
        (
            -4,
            "Core was ended by SIGILL, because this processor lacks an instruction that vLLM uses: "
            "try another model.dtype.",
        ),
        (-11, "Core was ended by SIGSEGV, and the log has the reason."),
        (1, "Core ended with exit code 1, and the log has the reason."),
        (0, "the log has the reason."),
    ],
)
def test_exit_code_is_reported_with_a_remedy(code: int, expected: str) -> None:
    assert str(dead_engine_error(ended(Core=code), "while it served")) == f"{DIED} while it served: {expected}"


def test_cores_with_the_same_exit_code_are_reported_together() -> None:
    message = str(dead_engine_error(ended(Core_0=-9, Core_1=-9, Core_2=1), "while it served"))
    assert "Core_0 and Core_1 were ended by SIGKILL" in message


def test_missing_process_attributes_are_no_error() -> None:
    assert str(dead_engine_error(SimpleNamespace(), "at once")) == f"{DIED} at once: the log has the reason."


def test_dead_worker_is_reported_by_its_own_pod() -> None:
    process = SimpleNamespace(name="VllmWorker-1", exitcode=-7)
    found = str(dead_ranks_error(SimpleNamespace(workers=[SimpleNamespace(proc=process)])))
    assert found == (
        f"{DIED} in this pod: VllmWorker-1 was ended by SIGBUS, most often because shared memory ran out: "
        "raise pod.sharedMemorySize."
    )
