"""The reference log on the real node: the sim engine with Llama 3.1 8B and the description of one Gaudi 2."""

import re
from collections.abc import Callable

import pytest
import yaml

from demo.install import MODEL_IMAGE, ROOT, Installation
from tests.e2e.pods import TIMEOUT, Pods, container_id, kill

EXAMPLE = ROOT / "examples" / "reference-llama-3.1-8b-gaudi2-sim.yaml"
NAME = "reference-llama-8b"


@pytest.fixture(scope="module")
def reference(installed: Installation, namespace: str, wait_ready: Callable[[str], None]) -> Pods:
    """The Ready example with a model from an image. A restricted namespace does not allow folders of the node."""
    manifest = yaml.safe_load(EXAMPLE.read_text())
    manifest["spec"]["model"]["source"] = {"ociImage": {"reference": MODEL_IMAGE}}
    installed.kubectl("apply", "--namespace", namespace, "-f", "-", stdin=yaml.safe_dump(manifest))
    wait_ready(NAME)
    return Pods(installed, namespace, NAME)


def test_seeds_000_and_002_end_with_62_and_100_percent(reference: Pods) -> None:
    header, row = reference.kubectl("get", "gi", NAME).splitlines()
    shown = dict(zip(header.split(), row.split(), strict=True))
    assert (shown["PROMPT%"], shown["DECODE%"], shown["WARMUP"], shown["READY"]) == ("62", "100", "100", "1")


def test_seeds_000_and_002_have_the_same_counts_in_events(reference: Pods) -> None:
    reference.wait_event("15 of 24 prompt graphs captured (9 left out for memory, they need about 31.1 GiB)")


def test_seeds_000_and_002_have_the_same_counts_in_logs(reference: Pods) -> None:
    log = reference.kubectl("logs", reference.only()["metadata"]["name"])
    captured = re.findall(r"\[Warmup\]\[Graph/(\w+)\]", log)
    assert captured == ["Prompt"] * 11 + ["Decode"] * 48 + ["Prompt"] * 4
    assert re.findall(r"\[Graph/Prompt\]\[(1[2-5])/24\] batch_size:(\d) query_len:(\d+)", log) == [
        ("12", "4", "256"),
        ("13", "2", "512"),
        ("14", "1", "1024"),
        ("15", "2", "640"),
    ]
    assert "Graph/Prompt captured:15 (62.5%)" in log
    assert "Graph/Decode captured:48 (100.0%)" in log


def test_restarted_container_reuses_recipes_on_the_disk_of_its_pod(installed: Installation, reference: Pods) -> None:
    before = reference.only()
    name = before["metadata"]["name"]
    kill(installed, before)
    reference.kubectl("wait", f"pod/{name}", "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", TIMEOUT)
    reference.kubectl("wait", f"pod/{name}", "--for=condition=Ready", TIMEOUT)
    assert container_id(reference.only()) != container_id(before)
    log = reference.kubectl("logs", name)
    assert "Recipe cache: 72 of 72 buckets have a recipe from an earlier start" in log
