"""`gaudi-plan forecast`: memory, graphs and warm-up time of a deployment without a card.

`forecast_document` finds the model and the card of a document, forecasts the deployment, and finds changes with which
the deployment would fit. verdict.py judges the forecast. forecast_output.py writes the forecast and the verdict.
"""

from dataclasses import replace
from pathlib import Path

from gaudi_operator.api.v1alpha1.warmup import Shortfall
from gaudi_operator.cli.plan.document import PlanDocument
from gaudi_operator.cli.plan.forecast_target import forecast_target
from gaudi_operator.cli.plan.plan_figures import PlanFigures, calculate_plan_figures, traffic_for_plan_figures
from gaudi_operator.cli.plan.validation_hints import validation_hints
from gaudi_operator.cli.plan.verdict import ForecastWithVerdict
from gaudi_operator.core.admission.engine_settings import (
    check_slicing_settings,
    engine_policy_check,
    engine_settings_hints,
)
from gaudi_operator.core.admission.spec_checks import first_spec_violation
from gaudi_operator.core.gate.thresholds import why_thresholds_unreachable
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.installation import InstallationDefaults, InstallationHostPath
from gaudi_operator.core.rendering.runtime_config import captures_graphs
from gaudi_runtime.catalog.cards import Card, card_named
from gaudi_runtime.catalog.models.config_json import read_checkpoint
from gaudi_runtime.catalog.models.known import known_shape
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.errors import ConfigError, PlanImpossible, Problem, UnsupportedModel
from gaudi_runtime.forecast.forecast import forecast
from gaudi_runtime.forecast.inputs import ForecastInputs, inputs_from_config
from gaudi_runtime.forecast.result import Forecast
from gaudi_runtime.forecast.thresholds import Thresholds, fits, shortfalls, uncheckable_thresholds
from gaudi_runtime.plan_check import capturable_plan_graphs, check_plan_before_fetch

DEFAULT_CARD = "gaudi2"
ANY_INSTALLATION = InstallationDefaults(
    "gaudi-runtime", "gaudi-runtime-hpu", allow_host_path=(InstallationHostPath("/"),), allow_simulation=True
)
"""The installation defaults that allow everything, because the installation is unknown here."""


def forecast_document(document: PlanDocument, card: str | None, model: str | None) -> ForecastWithVerdict:
    """Forecast the deployment of a document.

    `card` and `model` override the card and model of the document. Raises ConfigError.
    """
    inputs, thresholds = _forecast_inputs_of(document), _required_thresholds(document)
    shape, selected_card = _select_model_shape(document, model), _select_card(document, card)
    result = forecast(inputs, shape, selected_card)
    return ForecastWithVerdict(
        forecast=result,
        shortfalls=shortfalls(result, thresholds),
        shortfalls_certain=not fits(result, replace(thresholds, at_best=True)),
        uncheckable_thresholds=uncheckable_thresholds(result, thresholds),
        serves_anyway=_serves_anyway(document),
        plan_figures=_plan_figures(result, inputs),
        hints=(*document.manifest_warnings, *_hints(document)),
        config=document.config,
        refusal=_find_violation(document.inference, document.config) if document.inference else None,
        measured_plan=document.measured_plan,
    )


def _hints(document: PlanDocument) -> tuple[str, ...]:
    inference = document.inference
    return (*engine_settings_hints(inference), *validation_hints(inference)) if inference else ()


def _plan_figures(result: Forecast, inputs: ForecastInputs) -> PlanFigures | None:
    if result.plan is None:
        return None
    kv_blocks = int(result.kv_blocks.value)
    return calculate_plan_figures(
        result.plan, inputs.limits, kv_blocks, traffic_for_plan_figures(inputs.policy, inputs.limits, kv_blocks)
    )


def _serves_anyway(document: PlanDocument) -> bool:
    inference = document.inference
    return inference is not None and inference.spec.readiness.on_shortfall is Shortfall.SERVE_AND_WARN


def _find_violation(inference: Inference, config: RuntimeConfig) -> Problem | None:
    """Return the first problem for which the operator or a pod refuses the spec."""
    refusal = (
        first_spec_violation(inference, ANY_INSTALLATION)
        or check_slicing_settings(inference)
        or engine_policy_check(inference).run()
    )
    return refusal or _find_pod_refusal(inference, config)


def _find_pod_refusal(inference: Inference, config: RuntimeConfig) -> Problem | None:
    try:
        plan = check_plan_before_fetch(config, {})
    except PlanImpossible as error:
        return Problem(error.reason, f"spec.bucketing: {error}.")
    if not captures_graphs(inference):
        return None
    capturable = capturable_plan_graphs(plan, config, config.limits)
    reason = why_thresholds_unreachable(capturable, len(plan.prompt), len(plan.decode), inference.spec.readiness)
    return Problem("ThresholdsUnreachable", reason) if reason else None


def _forecast_inputs_of(document: PlanDocument) -> ForecastInputs:
    """Return the forecast inputs of a document, without model and card."""
    return replace(inputs_from_config(document.config), kv_blocks=document.kv_blocks)


def _required_thresholds(document: PlanDocument) -> Thresholds:
    if document.inference is None:
        return Thresholds()
    readiness = document.inference.spec.readiness
    return Thresholds(readiness.min_captured_prompt_percent, readiness.min_captured_decode_percent)


def _select_model_shape(document: PlanDocument, model: str | None) -> ModelShape | None:
    """Return the shape of the model to forecast: `model`, or else the document's model; None if unknown."""
    if model is not None:
        return _load_model_shape(model)
    target = forecast_target(document.inference.spec) if document.inference else None
    if target is not None:
        return known_shape(target.model)
    served_names = document.config.model.served_names
    return next((shape for name in served_names if (shape := known_shape(name))), None)


def _load_model_shape(model: str) -> ModelShape:
    shape = known_shape(model)
    if shape is not None:
        return shape
    path = Path(model)
    if not path.exists():
        raise ConfigError(
            f"model {model!r} is neither a known repository nor a file. Give the path of the checkpoint's config.json"
        )
    try:
        return read_checkpoint(path)
    except OSError as error:
        raise ConfigError(f"{error.filename} cannot be read: {error.strerror}") from error
    except UnsupportedModel as error:
        raise ConfigError(
            f"{error}. Without --model, the buckets are still planned, and the first pod measures memory"
        ) from error


def _select_card(document: PlanDocument, card: str | None) -> Card:
    """Return the card for the forecast of a deployment: `card`, or else the document's card.

    Raises ConfigError if the card is unknown.
    """
    if card is not None:
        return card_named(card)
    config, inference = document.config, document.inference
    simulated_card = config.engine.sim_script.get("card") if config.engine.name is EngineName.SIM else None
    if simulated_card is not None:
        return card_named(str(simulated_card))
    if inference is not None:
        return card_named(inference.spec.accelerator.generation)
    return card_named("none" if config.engine.device == "cpu" else DEFAULT_CARD)
