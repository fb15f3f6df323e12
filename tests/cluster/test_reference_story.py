"""The reference log on the real operator and runtime.

The status, the events and the log contain the reference figures.
"""

import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.cluster.conftest import NewOperator
from tests.cluster.pods import gate, ready, running
from tests.cluster.test_events_and_metrics import events_with
from tests.support.kube_api import KubeApi, Object, condition_of, until
from tests.support.kubelet import Kubelet
from tests.support.operator_process import OperatorProcess
from tests.support.real_runtime import real_runtime

EXAMPLE = Path(__file__).parents[2] / "examples" / "reference-llama-3.1-8b-gaudi2-sim.yaml"
NAME = "reference-llama-8b"


@pytest.fixture
async def operator(new_operator: NewOperator) -> AsyncIterator[OperatorProcess]:
    """An operator that allows the host folder of the example."""
    async with new_operator(allow_host_path='[{"prefix": "/models"}]') as process:
        yield process


@pytest.fixture
async def served(api: KubeApi, kubelet: Kubelet, operator: OperatorProcess, tmp_path: Path) -> tuple[Object, str]:
    """The Ready resource and the log of its pod."""
    kubelet.make_runtime = partial(real_runtime, api, tmp_path)
    await api.create(yaml.safe_load(EXAMPLE.read_text()))
    await running(api, kubelet)
    await until(partial(ready, api, NAME), "the resource to be Ready", seconds=60)
    resource = await api.get("GaudiInference", NAME)
    assert resource
    return resource, (tmp_path / "runtime.log").read_text()


async def test_seeds_000_and_002_status_shows_62_and_100_percent(served: tuple[Object, str]) -> None:
    status = served[0]["status"]
    assert status["capturedPercent"] == {"prompt": 62, "decode": 100}
    plan = status["plan"]
    assert (plan["basis"], plan["promptBuckets"], plan["decodeBuckets"]) == ("Simulated", 24, 48)
    assert "This is a simulation" in status["pods"][0]["message"]
    assert {kind: condition_of(served[0], kind)["status"] for kind in ("PlanAccepted", "WarmedUp", "Degraded")} == {
        "PlanAccepted": "True",
        "WarmedUp": "True",
        "Degraded": "False",
    }


async def test_seeds_000_and_002_event_names_15_and_48_graphs(api: KubeApi, served: tuple[Object, str]) -> None:
    await until(partial(events_with, api, "Ready"), "the event Ready")
    # Find the event by its note. The reason of the event is `Ready` if the kubelet is quick, and `WarmedUp` otherwise.
    opened = [each for each in await api.list("Event") if each["reason"] in ("Ready", "WarmedUp")]
    (event,) = [each for each in opened if "of 24 prompt graphs" in each["note"]]
    assert "15 of 24 prompt graphs captured (9 left out for memory" in event["note"]
    assert "48 of 48 decode graphs captured" in event["note"]


async def test_seeds_000_and_002_log_has_the_same_counts(served: tuple[Object, str]) -> None:
    log = served[1]
    assert re.findall(r"Graph/(\w+) captured:(\d+) \((\S+)%\)", log) == [
        ("Prompt", "15", "62.5"),
        ("Decode", "48", "100.0"),
    ]
    assert re.findall(r"\[Graph/Prompt\]\[(1[2-5])/24\] batch_size:(\d) query_len:(\d+)", log) == [
        ("12", "4", "256"),
        ("13", "2", "512"),
        ("14", "1", "1024"),
        ("15", "2", "640"),
    ]


async def test_restarted_container_reuses_the_recipes_of_its_first_start(
    api: KubeApi, kubelet: Kubelet, served: tuple[Object, str], tmp_path: Path
) -> None:
    (pod,) = served[0]["status"]["pods"]
    runtime = await kubelet.restart(pod["name"])
    opened = await until(partial(open_gate, api, pod["name"], runtime.container_id), "the gate to open", seconds=60)
    assert "15 of 24 prompt graphs" in opened["message"]
    first, second = re.findall(r"(\d+) of 72 buckets have a recipe", (tmp_path / "runtime.log").read_text())
    assert (first, second) == ("0", "72")


async def open_gate(api: KubeApi, pod: str, container: str) -> Object | None:
    """Return the pod's gate condition if the gate is open for this container, and None otherwise."""
    opened = await gate(api, pod, "True")
    return opened if opened and container in opened["message"] else None
