"""A runtime with a learned plan reports the forecast padding and the padding of the batches that it ran."""

from pathlib import Path

import httpx
import pytest

from gaudi_runtime.contract.bucketing import BucketPolicy, OptimalSettings, Strategy
from gaudi_runtime.contract.config import WarmupConfig
from gaudi_runtime.contract.report import Phase, ServedPhaseReport
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.runtime_process import RuntimeProcess, runtime_process, wait_until

LENGTHS = (90, 100, 110)
TRAFFIC = "".join(f"prompt 1 {tokens} 0 1\ndecode 1 1 1 8\n" for tokens in LENGTHS)
POLICY = BucketPolicy(strategy=Strategy.OPTIMAL, optimal=OptimalSettings(traffic=TRAFFIC))


@pytest.mark.parametrize(("lengths", "unlike"), [(LENGTHS, False), ((130, 140, 150), True)])
def test_only_unlearned_traffic_pads_more_than_forecast(tmp_path: Path, lengths: tuple[int, ...], unlike: bool) -> None:
    config = sim_config(warmup=WarmupConfig(enabled=False)).model_copy(update={"bucketing": POLICY})
    with runtime_process(tmp_path, config) as runtime:
        started = runtime.follow(Phase.SERVING)[-1].served.prompt
        complete(runtime, lengths)
        wait_until(lambda: prompts(runtime) == len(lengths))
        served = runtime.report().served.prompt
    assert started == ServedPhaseReport()
    assert served.padding is not None
    assert served.forecast_padding is not None
    assert (served.padding > served.forecast_padding * 1.1) is unlike
    assert (served.padding == pytest.approx(served.forecast_padding)) is not unlike


def prompts(runtime: RuntimeProcess) -> int:
    """Return the number of prompt batches in the report."""
    served = runtime.report().served.prompt
    return served.hits + served.misses


def complete(runtime: RuntimeProcess, lengths: tuple[int, ...]) -> None:
    """Send one request of each length."""
    with httpx.Client(base_url=runtime.model_url, trust_env=False, timeout=60) as http:
        for length in lengths:
            body = {"model": "echo", "prompt": "x" * length, "max_tokens": 8}
            http.post("/v1/completions", json=body).raise_for_status()
