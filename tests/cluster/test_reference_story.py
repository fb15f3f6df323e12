"""The reference log with the real operator and the real runtime: the status has its figures.

tests/e2e/test_reference_story.py checks events, the log and a restarted container on a real node.
"""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.cluster.conftest import NewOperator
from tests.cluster.pods import ready, running
from tests.support.kube_api import KubeApi, Object, condition_of, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess
from tests.support.real_runtime import real_runtime

EXAMPLE = Path(__file__).parents[2] / "examples" / "reference-llama-3.1-8b-gaudi2-sim.yaml"
NAME = "reference-llama-8b"
GIB = 2**30


@pytest.fixture
async def operator(new_operator: NewOperator) -> AsyncIterator[OperatorProcess]:
    """An operator that allows the folder in the example."""
    async with new_operator(allow_host_path='[{"prefix": "/models"}]') as process:
        yield process


@pytest.fixture
async def served(api: KubeApi, kubelet: Kubelet, operator: OperatorProcess, tmp_path: Path) -> Object:
    """The resource, which is Ready."""
    kubelet.make_runtime = partial(real_runtime, api, tmp_path)
    await api.create(yaml.safe_load(EXAMPLE.read_text()))
    await running(api, kubelet)
    await until(partial(ready, api, NAME), "the resource to be Ready", seconds=60)
    resource = await api.get("GaudiInference", NAME)
    assert resource
    return resource


async def test_seeds_000_and_002_status_shows_62_and_100_percent(served: Object) -> None:
    status = served["status"]
    assert status["capturedPercent"] == {"prompt": 62, "decode": 100}
    assert status["buckets"] == {
        "prompt": {"planned": 24, "warmed": 24, "captured": 15},
        "decode": {"planned": 48, "warmed": 48, "captured": 48},
    }
    assert status["memory"]["usableBytes"] / GIB == pytest.approx(39.58, abs=0.03)
    assert status["plan"]["basis"] == "Simulated"
    assert "This is a simulation" in status["pods"][0]["message"]
    assert {kind: condition_of(served, kind)["status"] for kind in ("PlanAccepted", "WarmedUp", "Degraded")} == {
        "PlanAccepted": "True",
        "WarmedUp": "True",
        "Degraded": "False",
    }
