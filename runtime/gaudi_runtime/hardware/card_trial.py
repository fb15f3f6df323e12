"""The trial of one card without a model: whether the bridge counts compiles, and whether free memory can be measured.

The trial has a separate process, because a process keeps the card that it has used: `python -m
gaudi_runtime.hardware.card_trial`. The last line of its output is the result as JSON.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.doctor.import_trials import run_trial
from gaudi_runtime.engines.create_engine import set_engine_environment
from gaudi_runtime.engines.recipe_key import HPU_CACHE
from gaudi_runtime.engines.vllm.workers.bridge import Bridge, open_bridge
from gaudi_runtime.hardware.instance import TrialEnded
from gaudi_runtime.hardware.report import ReportCardTrial

NEW_SIZE = 4099
"""A number of elements that no other code uses. It is a prime."""
ALLOCATED_BYTES = 1 << 30
FREE_DIVISOR = 8
"""The divisor of the free memory that gives the largest allocation."""


def try_card_in_process(config: RuntimeConfig, environment: Mapping[str, str]) -> ReportCardTrial:
    """Try one card in the execution mode of `config`, in a separate process. Raises TrialEnded if the trial fails."""
    # Without a folder for recipes, because a recipe that is loaded from disk is not compiled and not counted.
    variables = {name: value for name, value in environment.items() if name != HPU_CACHE}
    set_engine_environment(config, variables)
    variables.pop(HPU_CACHE, None)
    error, result = run_trial([sys.executable, "-m", __name__], environment=variables)
    if error:
        raise TrialEnded(f"A program that uses one card without a model failed: {error}.")
    return ReportCardTrial.model_validate(result)


def try_card(load: Callable[[str], Any] = import_module) -> ReportCardTrial:
    """Compile one new size and allocate memory on the card of this process. `load` imports a module by name."""
    # Import this module first, because it creates torch.hpu.
    load("habana_frameworks.torch")
    torch, bridge = load("torch"), open_bridge(load)
    recipes = _count_recipes_of_new_size(torch, bridge)
    free = bridge.memory()[0]
    allocated = min(ALLOCATED_BYTES, free // FREE_DIVISOR)
    tensor = torch.zeros(allocated, dtype=torch.uint8, device="hpu")
    bridge.mark_step()
    bridge.synchronize()
    lowered = free - bridge.memory()[0]
    del tensor
    return ReportCardTrial(recipes=recipes, allocated=allocated, lowered=lowered)


def _count_recipes_of_new_size(torch: Any, bridge: Bridge) -> int:
    """Return how many recipes the bridge counted for a computation with a new size; 0 if it has no metric."""
    if bridge.compiled is None:
        return 0

    def compute(tensor: Any) -> Any:
        return tensor * 2 + 1

    # In lazy mode, the bridge compiles all operations up to `mark_step`. In other modes, the plugin uses this backend.
    run = compute if bridge.is_lazy() else torch.compile(compute, backend="hpu_backend")
    before = bridge.compiled()
    run(torch.zeros(NEW_SIZE, device="hpu"))
    bridge.mark_step()
    bridge.synchronize()
    return (bridge.compiled() - before).recipes


if __name__ == "__main__":
    print(try_card().model_dump_json())  # noqa: T201 - the answer
