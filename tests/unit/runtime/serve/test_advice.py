"""A running server reports the savings of a plan learned from its own traffic."""

import signal
from pathlib import Path

import httpx

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import Phase
from tests.support.policies import EXPONENTIAL
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.runtime_process import RuntimeProcess, runtime_process
from tests.unit.runtime.serve.impatient import LEAST_BATCHES

ROOT = Path(__file__).parents[4]
IMPATIENT = "tests.unit.runtime.serve.impatient"


def exponential() -> RuntimeConfig:
    """Return a configuration of the default strategy with limits that result in about a hundred buckets."""
    times = {"compileSeconds": 0.005, "captureSeconds": 0.005}
    config = sim_config(times, max_model_len=4096, max_num_seqs=64, max_num_batched_tokens=4096)
    return config.model_copy(update={"bucketing": EXPONENTIAL})


def send_prompts(runtime: RuntimeProcess, requests: int) -> None:
    """Send `requests` prompts of the same length, one after the other."""
    with httpx.Client(base_url=runtime.model_url, trust_env=False) as http:
        for _ in range(requests):
            body = {"model": "echo", "prompt": "word " * 100, "max_tokens": 5, "ignore_eos": True}
            http.post("/v1/completions", json=body).raise_for_status()


def test_server_reports_the_savings_of_a_learned_plan(tmp_path: Path) -> None:
    with runtime_process(tmp_path, exponential(), variables={"PYTHONPATH": str(ROOT)}, module=IMPATIENT) as runtime:
        ready = runtime.follow(Phase.SERVING)[-1]
        send_prompts(runtime, LEAST_BATCHES)
        advice = runtime.until(lambda report: report.advice is not None)[-1].advice
        assert advice is not None
        assert advice.now.graphs == ready.prompt.planned + ready.decode.planned
        assert advice.learned.graphs < advice.now.graphs / 3
        assert advice.learned.warmup_seconds < advice.now.warmup_seconds / 3
        # The elapsed time of the report is at least the warm-up time, because the elapsed time includes all other parts
        # of the start.
        assert advice.now.warmup_seconds <= ready.elapsed_seconds
        runtime.signal(signal.SIGTERM)
        assert runtime.exit_code() == 0
