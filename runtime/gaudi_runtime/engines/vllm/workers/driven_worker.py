"""The vLLM worker, controlled by the runtime: its own warm-up is off, and one method executes all calls.

The worker is a subclass and not a worker extension, because vLLM rejects an extension that overrides a method. vLLM can
also call the methods of a subclass.
"""

import gc
import json
import logging
import os
import threading
import time
from typing import Any

import psutil

from gaudi_runtime.engines.vllm.launch import WorkerSettings, read_worker_settings
from gaudi_runtime.engines.vllm.start_errors import record_errors
from gaudi_runtime.errors import RuntimeStartError

log = logging.getLogger(__name__)


class DrivenWorker:
    """A mix-in that lets the runtime control a vLLM worker. The class of each platform provides the calls."""

    # All attributes and methods of this class begin with `gaudi`, because a new release of vLLM's worker may use any
    # other name.

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.gaudi_settings: WorkerSettings = read_worker_settings()
        self.gaudi_verbs: Any = None
        watch_runtime(self.gaudi_settings.runtime_pid)
        with record_errors(self.gaudi_settings.failures, "the worker was created"):
            super().__init__(*args, **kwargs)

    def init_device(self) -> None:
        """Open the device as vLLM does. If this fails, record the error."""
        with record_errors(self.gaudi_settings.failures, "the device was opened"):
            super().init_device()  # type: ignore[misc]

    def load_model(self, *args: Any, **kwargs: Any) -> Any:
        """Load the model as vLLM does. If this fails, record the error."""
        with record_errors(self.gaudi_settings.failures, "the model was loaded"):
            return super().load_model(*args, **kwargs)  # type: ignore[misc]

    def determine_available_memory(self) -> Any:
        """Measure the memory as vLLM does. If this fails, record the error."""
        with record_errors(self.gaudi_settings.failures, "memory was measured"):
            return super().determine_available_memory()  # type: ignore[misc]

    def initialize_from_config(self, kv_cache_config: Any) -> None:
        """Allocate the KV cache as vLLM does. If this fails, record the error."""
        with record_errors(self.gaudi_settings.failures, "the KV cache was allocated"):
            super().initialize_from_config(kv_cache_config)  # type: ignore[misc]

    def compile_or_warm_up_model(self) -> Any:
        """Do nothing, because the runtime warms up one bucket per call."""
        from vllm.v1.worker.worker_base import CompilationTimes

        return CompilationTimes(language_model=0.0, encoder=0.0)

    def gaudi(self, verb: str, arguments: list[Any]) -> dict[str, Any]:
        """Execute one call and return {"answer": ...} or {"reason": ..., "message": ...}, always as plain data."""
        import torch

        try:
            # Serving uses inference mode, too. Code that is compiled in another mode would be recompiled by the first
            # request.
            with torch.inference_mode():
                # Create this object here and not in `__init__`, because the model runner exists only after the device
                # was opened.
                if self.gaudi_verbs is None:
                    self.gaudi_verbs = self.gaudi_create_verbs()
                answer = getattr(self.gaudi_verbs, verb)(*arguments)
            if verb == "start_serving":
                self.gaudi_forget_warmup()
            # Convert the answer through JSON, so that it contains only plain data. An object that vLLM cannot encode
            # would stop the thread that sends answers, and then no request gets an answer.
            return {"answer": json.loads(json.dumps(answer))}
        except RuntimeStartError as error:
            return {"reason": error.reason, "message": str(error)}
        except Exception as error:
            log.exception("The call %s failed in a worker of vLLM", verb)
            # Return the error as text, because the runtime process may not be able to decode the error object.
            return {"reason": "Crashed", "message": f"{type(error).__name__}: {error}"}

    def gaudi_forget_warmup(self) -> None:
        """Reset the seed, and exclude all objects of the start and the warm-up from garbage collections."""
        from vllm.utils.torch_utils import set_random_seed

        # Without the reset, answers would depend on the random numbers that warm-up has used.
        set_random_seed(self.vllm_config.model_config.seed)  # type: ignore[attr-defined]
        # vLLM freezes its objects before this warm-up, and only in some processes. A collection of all objects stops a
        # worker for a quarter of a second, and the other ranks wait.
        gc.collect()
        gc.freeze()

    def gaudi_create_verbs(self) -> Any:
        """Return the object that executes the calls on this platform."""
        raise NotImplementedError


LOOK_SECONDS = 1.0


def watch_runtime(pid: int) -> None:
    """Start a thread that ends this worker immediately when process `pid`, the runtime, has ended."""

    def watch() -> None:
        while _is_running(pid):
            time.sleep(LOOK_SECONDS)
        # Exit when the runtime is gone. Otherwise a worker would outlive a SIGKILL of the runtime and keep its card
        # allocated. `os._exit` skips the normal exit, which would wait for other workers that may be gone.
        os._exit(1)

    threading.Thread(target=watch, name="orphan-watch", daemon=True).start()


def _is_running(pid: int) -> bool:
    try:
        # A zombie process has ended, although its parent has not read the exit code yet.
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
