"""What padding is counted in: tokens, or the seconds of a roofline of a model on a card (docs/traffic.md, Cost)."""

from gaudi_operator.cli.plan.cost_model import CostModel
from gaudi_operator.cli.plan.forecasting import asked_card, asked_inputs, asked_shape
from gaudi_operator.cli.plan.question import PlanQuestion
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.forecast.inputs import spread_of
from gaudi_runtime.optimal.cost import Cost, token_cost
from gaudi_runtime.optimal.roofline import roofline_of


def cost_of(question: PlanQuestion, wanted: CostModel, card: str | None, model: str | None) -> tuple[Cost, str]:
    """The cost and a sentence about it. Raises ConfigError for a roofline of what is unknown."""
    block = question.limits.block_size
    if wanted is CostModel.TOKENS:
        if card or model:
            raise ConfigError("--card and --model are read with --cost roofline alone; tokens depend on neither")
        return token_cost(block), "padding is counted in tokens"
    shape, described = asked_shape(question, model), asked_card(question, card)
    if shape is None:
        raise ConfigError("--cost roofline needs the model: name a public repository or a config.json with --model")
    roofline = roofline_of(shape, spread_of(asked_inputs(question), shape), described, block)
    return roofline, (
        "padding is counted in estimated seconds: a roofline of "
        f"{shape.name or f'a {shape.family} model'} on card {described.name}, "
        f"{roofline.operations_per_second / 1e12:g} TFLOPS and {roofline.bytes_per_second / 1e12:g} TB/s as published"
    )
