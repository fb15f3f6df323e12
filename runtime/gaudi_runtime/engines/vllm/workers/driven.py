"""vLLM's worker as we drive it: its own warm-up is off, and one method answers all our verbs.

A subclass and no worker extension: vLLM refuses an extension that overrides anything, and calls methods of a subclass
just as well.
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
    """Mixed into the worker of a platform, which says what its verbs are."""

    # Every name of ours begins with `gaudi`: vLLM's worker has a name space of its own, which grows with its releases.

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.gaudi_orders: Orders = read_orders()
        self.gaudi_verbs: Any = None
        watch_runtime(self.gaudi_orders.runtime_pid)
        with recorded(self.gaudi_orders.failures, "the worker was made"):
            super().__init__(*args, **kwargs)

    def init_device(self) -> None:
        """As vLLM does, with the reason kept where it fails."""
        with recorded(self.gaudi_orders.failures, "the device was opened"):
            super().init_device()  # type: ignore[misc]

    def load_model(self, *args: Any, **kwargs: Any) -> Any:
        """As vLLM does, with the reason kept where it fails."""
        with recorded(self.gaudi_orders.failures, "the model was loaded"):
            return super().load_model(*args, **kwargs)  # type: ignore[misc]

    def determine_available_memory(self) -> Any:
        """As vLLM does, with the reason kept where it fails."""
        with recorded(self.gaudi_orders.failures, "memory was measured"):
            return super().determine_available_memory()  # type: ignore[misc]

    def initialize_from_config(self, kv_cache_config: Any) -> None:
        """As vLLM does, with the reason kept where it fails."""
        with recorded(self.gaudi_orders.failures, "the KV cache was allocated"):
            super().initialize_from_config(kv_cache_config)  # type: ignore[misc]

    def compile_or_warm_up_model(self) -> Any:
        """Nothing: warm-up comes bucket by bucket, by our verbs."""
        from vllm.v1.worker.worker_base import CompilationTimes

        return CompilationTimes(language_model=0.0, encoder=0.0)

    def gaudi(self, verb: str, arguments: list[Any]) -> dict[str, Any]:
        """Do one verb. Answers {"answer": ...} or {"reason": ..., "message": ...}, always plain data."""
        import torch

        try:
            # As vLLM serves: what is compiled in another mode is compiled once more by the first request.
            with torch.inference_mode():
                # Not in __init__: the model runner is there only once the device is open.
                if self.gaudi_verbs is None:
                    self.gaudi_verbs = self.gaudi_open_verbs()
                answer = getattr(self.gaudi_verbs, verb)(*arguments)
            if verb == "start_serving":
                self.gaudi_reset_seed()
            # Through JSON: an object that vLLM cannot encode would stop its thread that sends answers, and with it
            # every request.
            return {"answer": json.loads(json.dumps(answer))}
        except RuntimeStartError as error:
            return {"reason": error.reason, "message": str(error)}
        except Exception as error:
            log.exception("Verb %s of a worker failed", verb)
            # Whatever it was, it must not travel as an object: our own process may not be able to read it.
            return {"reason": "Crashed", "message": f"{type(error).__name__}: {error}"}

    def gaudi_reset_seed(self) -> None:
        """Warm-up has drawn random numbers: without this what is sampled would depend on what was warmed."""
        from vllm.utils.torch_utils import set_random_seed

        set_random_seed(self.vllm_config.model_config.seed)  # type: ignore[attr-defined]

    def gaudi_open_verbs(self) -> Any:
        """The verbs of this platform."""
        raise NotImplementedError


LOOK_SECONDS = 1.0


def watch_runtime(pid: int) -> None:
    """Watch process `pid` in a thread of its own and end this process, without ceremony, once it is gone."""

    def watch() -> None:
        while _is_there(pid):
            time.sleep(LOOK_SECONDS)
        # A worker would otherwise outlive a SIGKILL of the runtime, holding its card. No ordinary exit: it
        # waits for peers that may be gone.
        os._exit(1)

    threading.Thread(target=watch, name="orphan-watch", daemon=True).start()


def _is_there(pid: int) -> bool:
    try:
        # A zombie was killed, and nobody has asked about it yet: it is gone, too.
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
