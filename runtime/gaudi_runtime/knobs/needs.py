"""Under which strategy, execution mode and device a knob has an effect."""

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.knobs.knob import Knob

_NAMES = {"strategy": "the {} strategy", "mode": "execution mode {}", "device": "device {}"}


def unmet_need(knob: Knob, config: RuntimeConfig) -> str | None:
    """Who ignores the knob, and what it needs instead; None when it has an effect."""
    engine = config.engine
    actual = {"strategy": config.bucketing.strategy, "mode": engine.execution_mode, "device": engine.device}
    for key, wanted in knob.needs.items():
        if actual[key] not in wanted:
            return f"{_NAMES[key].format(actual[key])}: it needs {' or '.join(wanted)}"
    return None
