"""The manifest of README.md without a change of mode: its runtime on the emulated card, and the operator's gate."""

from pathlib import Path

import pytest

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.deadlines import Deadlines
from gaudi_operator.core.gate.judgement import judge_gate
from gaudi_operator.core.inference import Inference, InferenceIdentity
from gaudi_operator.core.rendering.runtime_config import runtime_config
from gaudi_runtime.contract.report import Phase, WarmupReport
from tests.plugin.engine import Facts, Run, run_in_fork
from tests.support.documented import tiny_llama
from tests.unit.operator.core.pod_objects import pod, view
from tests.unit.operator.core.resources import NOW

SPEC = GaudiInferenceSpec.model_validate(tiny_llama("http://127.0.0.1:1")["spec"])


async def start(run: Run) -> Facts:
    """Start the engine. Return its report and the answer to a request."""
    report = await run.start()
    answers = run.answer([[1, 2, 3]], 4)
    return {"report": report.model_dump(mode="json", exclude={"served", "phase"}), "answers": answers}


@pytest.fixture(scope="module")
def facts(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    config = runtime_config(
        Inference(InferenceIdentity("llama", "models", "uid", 1, deleting=False, restarted_at=None), SPEC)
    )
    model = config.model.model_copy(update={"path": str(checkpoints["llama"]), "hub": None})
    config = config.model_copy(update={"model": model, "recipe_cache_dir": None})
    return run_in_fork(start, config, tmp_path_factory.mktemp("readme"))


def test_gate_of_the_readme_manifest_opens_with_executed_buckets(facts: Facts) -> None:
    report = WarmupReport.model_validate({**facts["report"], "phase": Phase.SERVING})
    gate = judge_gate(view(pod(plan_hash=report.plan_hash), report), SPEC.readiness, Deadlines(NOW))
    planned = report.prompt.planned, report.decode.planned
    assert gate
    assert (gate.open, gate.reason) == (True, "WarmedUp")
    assert f"{planned[0]} of {planned[0]} prompt buckets executed" in gate.message
    assert f"{planned[1]} of {planned[1]} decode buckets executed" in gate.message


def test_readme_manifest_sets_neither_mode_nor_shortfall(facts: Facts) -> None:
    assert SPEC.engine.execution_mode is None
    assert SPEC.readiness.model_fields_set == set()
    assert len(facts["answers"][0]) == 4
