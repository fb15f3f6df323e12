"""vLLM's worker as we drive it: its own warm-up is off, and one method answers all our verbs.

Every name of ours begins with `gaudi`, since the class is mixed into a worker of vLLM. A subclass and no worker
extension: vLLM refuses an extension that overrides anything, and calls methods of a subclass just as well.

A worker ends when the runtime that started it is gone: it would otherwise outlive a SIGKILL of the runtime.
"""

import json
import os
import threading
import time
from contextlib import AbstractContextManager
from typing import Any

import psutil

from gaudi_runtime.engines.vllm.launch import Orders, read_orders
from gaudi_runtime.engines.vllm.start_errors import recorded
from gaudi_runtime.errors import RuntimeStartError


class DrivenWorker:
    """Mixed into the worker of a platform, which says what its verbs are."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.gaudi_orders: Orders = read_orders()
        self.gaudi_verbs: Any = None
        watch_runtime(self.gaudi_orders.runtime_pid)
        with self.gaudi_step("the worker was made"):
            super().__init__(*args, **kwargs)

    def init_device(self) -> None:
        """As vLLM does, with the reason kept where it fails."""
        with self.gaudi_step("the device was opened"):
            super().init_device()  # type: ignore[misc]

    def load_model(self, *args: Any, **kwargs: Any) -> Any:
        """As vLLM does, with the reason kept where it fails."""
        with self.gaudi_step("the model was loaded"):
            return super().load_model(*args, **kwargs)  # type: ignore[misc]

    def determine_available_memory(self) -> Any:
        """As vLLM does, with the reason kept where it fails."""
        with self.gaudi_step("memory was measured"):
            return super().determine_available_memory()  # type: ignore[misc]

    def initialize_from_config(self, kv_cache_config: Any) -> None:
        """As vLLM does, with the reason kept where it fails."""
        with self.gaudi_step("the KV cache was allocated"):
            super().initialize_from_config(kv_cache_config)  # type: ignore[misc]

    def compile_or_warm_up_model(self) -> Any:
        """Nothing: warm-up comes bucket by bucket, by our verbs."""
        from vllm.v1.worker.worker_base import CompilationTimes

        return CompilationTimes(language_model=0.0, encoder=0.0)

    def gaudi(self, verb: str, arguments: list[Any]) -> dict[str, Any]:
        """Do one verb. Answers {"answer": ...} or {"reason": ..., "message": ...}, always plain data.

        Anything else would stop the thread of vLLM that sends answers, and with it every request.
        """
        try:
            if self.gaudi_verbs is None:
                self.gaudi_verbs = self.gaudi_open_verbs()
            return {"answer": json.loads(json.dumps(getattr(self.gaudi_verbs, verb)(*arguments)))}
        except RuntimeStartError as error:
            return {"reason": error.reason, "message": str(error)}
        except Exception as error:  # whatever it was, it must not travel as an object
            return {"reason": "Crashed", "message": f"{type(error).__name__}: {error}"}

    def gaudi_open_verbs(self) -> Any:
        """The verbs of this platform."""
        raise NotImplementedError

    def gaudi_step(self, step: str) -> AbstractContextManager[None]:
        """Keeps the reason when a step of the start fails."""
        return recorded(self.gaudi_orders.failures, step)


LOOK_SECONDS = 1.0


def watch_runtime(pid: int) -> None:
    """Watch process `pid` in a thread of its own and end this process, without ceremony, once it is gone."""
    threading.Thread(target=_watch, args=(pid,), name="orphan-watch", daemon=True).start()


def _watch(pid: int) -> None:
    while _is_there(pid):
        time.sleep(LOOK_SECONDS)
    os._exit(1)


def _is_there(pid: int) -> bool:
    """A process that was killed and that nobody has asked about yet is gone, too."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
