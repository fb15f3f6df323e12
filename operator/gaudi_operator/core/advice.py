"""The smallest change of a spec that would make it fit, one setting at a time (docs/memory.md, Advice)."""

from gaudi_operator.api.v1alpha1.warmup import Readiness
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.kept import Answers, text_bytes
from gaudi_operator.core.outlook import SMALL, forecast_inputs
from gaudi_operator.core.subject import Subject, subject
from gaudi_runtime.cards.catalog import card_named
from gaudi_runtime.forecast.advice import advise, sentence
from gaudi_runtime.forecast.inputs import ForecastInputs
from gaudi_runtime.forecast.wanted import Wanted
from gaudi_runtime.models.known import known_shape

ROOM = Wanted(0, 0)
"""Nothing but room for the model and one sequence."""

_SENTENCES: Answers[str] = Answers(8 * 2**20)


def room_advice(inference: Inference) -> str:
    """What gives the model room, as a part of a sentence; empty when no single change does."""
    return _advice(inference, ROOM)


def graph_advice(inference: Inference, readiness: Readiness) -> str:
    """What lets the asked-for graphs fit as expected, as a part of a sentence; empty when no single change does."""
    wanted = Wanted(readiness.min_captured_prompt_percent, readiness.min_captured_decode_percent)
    return _advice(inference, wanted)


def _advice(inference: Inference, wanted: Wanted) -> str:
    about = subject(inference.spec)
    return "" if about is None else _changes(forecast_inputs(inference), about, wanted)


def _changes(inputs: ForecastInputs, about: Subject, wanted: Wanted) -> str:
    """Kept, because every pass asks again and a large plan takes seconds."""
    return _SENTENCES.get(
        (inputs, about, wanted), lambda: _work_out(inputs, about, wanted), lambda _: SMALL + text_bytes(inputs.policy)
    )


def _work_out(inputs: ForecastInputs, about: Subject, wanted: Wanted) -> str:
    shape = known_shape(about.model)
    return "" if shape is None else sentence(advise(inputs, shape, card_named(about.card), wanted))
