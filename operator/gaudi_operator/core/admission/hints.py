"""Hints about a spec: its execution mode, its draft tokens and its vision buckets.

Hints are part of the message of the condition PlanAccepted. They never refuse a spec (docs/how-to/running-vllm.md,
Hints).
"""

from collections.abc import Iterator
from dataclasses import replace

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.rendering.execution_mode import execution_mode, runs_vllm_on_card
from gaudi_runtime.contract.base import spec_spelling
from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.knobs.speculation import read_speculation


def plan_hints(inference: Inference) -> tuple[str, ...]:
    """Return hints as sentences: about the execution mode of a stored revision, and about a vLLM engine."""
    spec = inference.spec
    mode_hints = tuple(_execution_mode_hints(inference))
    if spec.engine.name is not EngineName.VLLM:
        return mode_hints
    return (*mode_hints, *_speculation_hints(spec), *(_vision_hints(spec) if runs_vllm_on_card(inference) else ()))


def _execution_mode_hints(inference: Inference) -> Iterator[str]:
    """Yield a sentence if the default execution mode has changed and the next revision will use the new default."""
    stored_mode, next_mode = inference.stored_mode, execution_mode(replace(inference, stored_mode=None))
    if stored_mode is not None and inference.spec.engine.execution_mode is None and stored_mode is not next_mode:
        mode_name = spec_spelling(stored_mode)
        yield (
            f"spec.engine.executionMode is left out. The pods use {mode_name}, the default when their revision was "
            f"created, but the next revision uses {spec_spelling(next_mode)}. To keep {mode_name}, set "
            f"spec.engine.executionMode to {mode_name}. This restarts no pods."
        )


def _speculation_hints(spec: GaudiInferenceSpec) -> Iterator[str]:
    if read_speculation(spec.engine.settings):
        yield (
            "With speculative decoding, only greedy requests are served. Requests with a temperature, logprobs or a "
            "grammar get status 400."
        )


def _vision_hints(spec: GaudiInferenceSpec) -> Iterator[str]:
    if spec.model.items_per_prompt.image or spec.model.items_per_prompt.video:
        yield (
            "Vision buckets are unknown until a pod has loaded the model. Until then, plans contain no vision buckets."
        )
