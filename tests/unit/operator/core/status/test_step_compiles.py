"""BucketCoverage while serving: compiles outside of forwards, such as those of the sampler, and cold shapes."""

from gaudi_operator.core.status.conditions import FALSE, Verdict
from gaudi_operator.core.status.spec_conditions import judge_spec_bucket_coverage
from gaudi_runtime.contract.compiles import StepCompiles, StepPart
from gaudi_runtime.contract.report import BucketPhase, ColdShape, ServedTrafficReport, WarmupReport
from tests.unit.operator.core.reports import report
from tests.unit.operator.core.states import DONE, serving, state_of


def compiled_steps(*steps: tuple[StepPart, str, int, float]) -> WarmupReport:
    found = tuple(StepCompiles(part=part, kind=kind, count=count, seconds=took) for part, kind, count, took in steps)
    total = sum(count for _, _, count, _ in steps)
    return report(recompiles_since_ready=total, served=ServedTrafficReport(step_compiles=found))


def test_compiles_of_the_sampler_name_the_kinds_of_requests() -> None:
    waited = compiled_steps((StepPart.SAMPLER, "top_k", 1, 0.5), (StepPart.SAMPLER, "logprobs", 6, 1.7))
    found = state_of([serving("a", said=waited), serving("b", said=waited)], DONE)
    assert judge_spec_bucket_coverage(found) == Verdict(
        FALSE,
        "SamplerCompiled",
        "12 steps waited 3.4 s for `logprobs`, 2 steps waited 1.0 s for `top_k`. Warm-up did not run these operations, "
        "and all requests of such a step waited. Avoid these kinds of requests, or set spec.readiness.onRecompiles to "
        "Ignore.",
    )


def test_compiles_outside_of_forward_and_sampler_have_their_own_reason() -> None:
    found = judge_spec_bucket_coverage(state_of([serving(said=compiled_steps((StepPart.OTHER, "", 1, 0.2)))]))
    assert (found.status, found.reason) == (FALSE, "StepCompiled")
    assert found.message.startswith("1 step waited 0.2 s for other operations.")


def test_cold_shapes_take_precedence_over_compiles_of_the_sampler() -> None:
    waited = compiled_steps((StepPart.SAMPLER, "top_k", 1, 0.5)).model_copy(update={"recompiles_since_ready": 2})
    assert judge_spec_bucket_coverage(state_of([serving(said=waited)])).reason == "ColdShapes"


def test_cold_shape_without_a_compile_is_reported() -> None:
    cold = ColdShape(phase=BucketPhase.PROMPT, shape=(1, 300, 0), count=1)
    assert judge_spec_bucket_coverage(state_of([serving(said=report(cold_shapes=(cold,)))])).status is FALSE
