"""vLLM's worker under our control: its own warm-up is off, and one method answers all our calls.

This is a subclass and not a worker extension, because vLLM refuses an extension that overrides anything. vLLM can call
the methods of a subclass, too.
"""

import json
import logging
import os
import threading
import time
from typing import Any

import psutil

from gaudi_runtime.engines.vllm.launch import Orders, read_orders
from gaudi_runtime.engines.vllm.start_errors import recorded
from gaudi_runtime.errors import RuntimeStartError

log = logging.getLogger(__name__)


class DrivenWorker:
    """A mix-in that puts the worker of a platform under our control. The platform provides the calls."""

    # Every name of ours begins with `gaudi`, because vLLM's worker gets new names with its releases.

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.gaudi_orders: Orders = read_orders()
        self.gaudi_verbs: Any = None
        watch_runtime(self.gaudi_orders.runtime_pid)
        with recorded(self.gaudi_orders.failures, "the worker was made"):
            super().__init__(*args, **kwargs)

    def init_device(self) -> None:
        """Open the device as vLLM does, and record the reason if that fails."""
        with recorded(self.gaudi_orders.failures, "the device was opened"):
            super().init_device()  # type: ignore[misc]

    def load_model(self, *args: Any, **kwargs: Any) -> Any:
        """Load the model as vLLM does, and record the reason if that fails."""
        with recorded(self.gaudi_orders.failures, "the model was loaded"):
            return super().load_model(*args, **kwargs)  # type: ignore[misc]

    def determine_available_memory(self) -> Any:
        """Measure memory as vLLM does, and record the reason if that fails."""
        with recorded(self.gaudi_orders.failures, "memory was measured"):
            return super().determine_available_memory()  # type: ignore[misc]

    def initialize_from_config(self, kv_cache_config: Any) -> None:
        """Allocate the KV cache as vLLM does, and record the reason if that fails."""
        with recorded(self.gaudi_orders.failures, "the KV cache was allocated"):
            super().initialize_from_config(kv_cache_config)  # type: ignore[misc]

    def compile_or_warm_up_model(self) -> Any:
        """Do nothing, because our calls warm up bucket by bucket."""
        from vllm.v1.worker.worker_base import CompilationTimes

        return CompilationTimes(language_model=0.0, encoder=0.0)

    def gaudi(self, verb: str, arguments: list[Any]) -> dict[str, Any]:
        """Execute one call. Returns {"answer": ...} or {"reason": ..., "message": ...}, always plain data."""
        import torch

        try:
            # The same mode as in serving. Code that is compiled in another mode is compiled again by the first request.
            with torch.inference_mode():
                # Not created in __init__, because the model runner exists only after the device was opened.
                if self.gaudi_verbs is None:
                    self.gaudi_verbs = self.gaudi_open_verbs()
                answer = getattr(self.gaudi_verbs, verb)(*arguments)
            if verb == "start_serving":
                self.gaudi_reset_seed()
            # Converted through JSON: an object that vLLM cannot encode would stop the thread that sends its answers,
            # and so every request.
            return {"answer": json.loads(json.dumps(answer))}
        except RuntimeStartError as error:
            return {"reason": error.reason, "message": str(error)}
        except Exception as error:
            log.exception("The call %s of a worker failed", verb)
            # Sent as text and not as an object, which our own process may not be able to decode.
            return {"reason": "Crashed", "message": f"{type(error).__name__}: {error}"}

    def gaudi_reset_seed(self) -> None:
        """Reset the seed. Warm-up used random numbers, and without a reset the answers would depend on it."""
        from vllm.utils.torch_utils import set_random_seed

        set_random_seed(self.vllm_config.model_config.seed)  # type: ignore[attr-defined]

    def gaudi_open_verbs(self) -> Any:
        """Return the calls of this platform."""
        raise NotImplementedError


LOOK_SECONDS = 1.0


def watch_runtime(pid: int) -> None:
    """End this worker at once when process `pid`, the runtime that drives it, has ended. A thread watches it."""

    def watch() -> None:
        while _is_there(pid):
            time.sleep(LOOK_SECONDS)
        # Otherwise a worker would outlive a SIGKILL of the runtime and hold its card. A normal exit would wait for
        # peers that may be gone.
        os._exit(1)

    threading.Thread(target=watch, name="orphan-watch", daemon=True).start()


def _is_there(pid: int) -> bool:
    try:
        # A zombie has ended, too, although its parent has not read its exit code yet.
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
