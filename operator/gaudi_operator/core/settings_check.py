"""Settings of the engine: what is wrong with them, and which have no effect (docs/knobs.md).

The rules are the runtime's (gaudi_runtime/knobs); here they meet a resource, in sentences that name its fields.
"""

from collections.abc import Iterator

from gaudi_operator.core.inference import Inference
from gaudi_operator.core.runtime_config import runtime_config
from gaudi_runtime.buckets.ignored import ignored_settings
from gaudi_runtime.knobs.arguments import wrong_arguments
from gaudi_runtime.knobs.check import wrong_settings, wrong_variables
from gaudi_runtime.knobs.ignored import ignored_knobs

MOST_SENTENCES = 5


def why_settings_are_wrong(inference: Inference) -> str | None:
    """One text that names every wrong setting, as far as people read; None when all can be passed on."""
    return _text([f"spec.{each}" for each in _wrong(inference)])


def why_settings_are_ignored(inference: Inference) -> str | None:
    """One text that names every setting without effect; None when all have one."""
    config = runtime_config(inference)
    ignored = (*ignored_knobs(config), *ignored_settings(config.bucketing, config.limits))
    return _text([f"spec.{each}" for each in ignored])


def _wrong(inference: Inference) -> Iterator[str]:
    engine = inference.spec.engine
    variables = [each.name for each in engine.env]
    yield from (f"engine.settings: {each}" for each in wrong_settings(engine.settings))
    yield from (f"engine.extraArgs: {each}" for each in wrong_arguments(engine.extra_args))
    yield from (f"engine.env: {each}" for each in wrong_variables(variables))
    for name in sorted(engine.settings.keys() & set(variables)):
        yield f"engine.env: {name} stands in engine.settings too: give it once"


def _text(sentences: list[str]) -> str | None:
    if not sentences:
        return None
    more = len(sentences) - MOST_SENTENCES
    shown = "; ".join(sentences[:MOST_SENTENCES])
    return f"{shown}; and {more} more." if more > 0 else f"{shown}."
