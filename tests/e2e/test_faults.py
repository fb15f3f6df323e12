"""Handling of faulty specs. The operator reports one sentence, creates no more pods, and keeps the serving pods."""

import json
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from demo.client_pod import ClientPod
from demo.install import MODEL_IMAGE, RUNTIME_IMAGE, Installation, checkpoint
from demo.resource import Resource, condition, is_ready, is_stalled
from demo.story import CHAT
from tests.e2e.pods import Pods
from tests.e2e.specs import VLLM

NAME = "good"
PATIENCE = 180
DAMAGED_IMAGE, UNKNOWN_IMAGE = "localhost/tiny-damaged:dev", "localhost/tiny-unknown:dev"


def source(reference: str, path: str = ".") -> dict[str, Any]:
    """Return a spec whose model is the checkpoint in an OCI image."""
    return {"model": {"source": {"ociImage": {"reference": reference, "path": path}}}}


@pytest.fixture(scope="module")
def pods(installed: Installation, namespace: str) -> Pods:
    """The pods of the resource that these tests try to break."""
    return Pods(installed, namespace, NAME)


@pytest.fixture(scope="module")
def send_question(installed: Installation, namespace: str) -> Callable[[], str]:
    """Send a question to the Service from a pod in the cluster, and return the model's answer."""

    def _send() -> str:
        pod = ClientPod(installed.kubectl, namespace, "chat", RUNTIME_IMAGE, CHAT)
        pod.start(NAME, NAME, "What is a bucket?")
        return pod.finish()

    return _send


@pytest.fixture(scope="module")
def good(
    installed: Installation,
    apply: Callable[..., Resource],
    wait_ready: Callable[[str], None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Resource:
    """A serving resource, and images of checkpoints that cannot be served."""
    resource = apply(NAME, **VLLM)
    damaged = shutil.copytree(checkpoint(), tmp_path_factory.mktemp("damaged"), dirs_exist_ok=True)
    unknown = shutil.copytree(damaged, tmp_path_factory.mktemp("unknown"), dirs_exist_ok=True)
    (damaged / "model.safetensors").write_bytes(b"\xff" * 4096)
    config = json.loads((unknown / "config.json").read_text())
    (unknown / "config.json").write_text(json.dumps({**config, "model_type": "oracle"}))
    installed.cluster.load_folder(damaged, DAMAGED_IMAGE)
    installed.cluster.load_folder(unknown, UNKNOWN_IMAGE)
    wait_ready(NAME)
    return resource


@pytest.fixture(scope="module")
def answer(good: Resource, send_question: Callable[[], str]) -> str:
    """The answer of the good revision to the question."""
    return send_question()


@pytest.fixture
def untouched(good: Resource, pods: Pods, send_question: Callable[[], str], answer: str) -> Iterator[dict[str, int]]:
    """The restart counts of the serving pods, by UID.

    The test must not affect these pods. The spec is reverted afterwards.
    """
    before, names = pods.restarts(), pods.names()
    yield before
    assert before.items() <= pods.restarts().items()
    for name in names:
        pods.wait_endpoint(name, ready=True)
    assert send_question() == answer
    added = pods.names() - names
    fixed = {"hostPath": None, **source(MODEL_IMAGE)["model"]["source"]}
    good.patch({"model": {"source": fixed}, "accelerator": VLLM["accelerator"]})
    next(state for state in good.states(PATIENCE) if is_ready(state))
    pods.wait_gone(added)
    assert pods.restarts() == before


def stalled(resource: Resource, reason: str) -> dict[str, Any]:
    """Wait until the current generation is Stalled for `reason`, and return that state."""
    return next(state for state in resource.states(PATIENCE) if is_stalled(state, reason))


def reconcile_again(resource: Resource) -> None:
    """Make the operator reconcile the resource three more times."""
    for number in range(3):
        generation = resource.patch({"rollout": {"revisionHistoryLimit": 5 + number}})["metadata"]["generation"]
        seen = (state for state in resource.states(PATIENCE) if state["metadata"]["generation"] == generation)
        next(state for state in seen if condition(state, "Stalled")["status"] == "True")


def pods_created(pods: Pods) -> int:
    """Return the number of pods that were ever created for the resource."""
    events = json.loads(pods.kubectl("get", "events", "--field-selector", "reason=SuccessfulCreate", "-o", "json"))
    mine = [each for each in events["items"] if each["involvedObject"]["name"].startswith(f"{NAME}-")]
    return sum(each.get("count") or 1 for each in mine)


@pytest.mark.parametrize(
    ("spec", "reason", "sentence"),
    [
        (
            source(MODEL_IMAGE, "no/such/folder"),
            "ModelNotFound",
            "no/such/folder does not exist. Check the path in spec.model.source.",
        ),
        (source(DAMAGED_IMAGE), "ModelUnreadable", "model.safetensors is damaged"),
        (source(UNKNOWN_IMAGE), "UnsupportedModel", "oracle"),
    ],
    ids=["folder is missing", "weights are damaged", "architecture is unknown"],
)
def test_model_that_cannot_load_creates_one_pod_and_rolls_back(
    good: Resource, pods: Pods, untouched: dict[str, int], spec: dict[str, Any], reason: str, sentence: str
) -> None:
    created, names = pods_created(pods), pods.names()
    good.patch(spec)
    found = condition(stalled(good, "RolledBack"), "Stalled")
    assert f"failed ({reason}): Pod {NAME}-" in found["message"]
    assert sentence in found["message"]
    pods.wait_gone(pods.names() - names)
    reconcile_again(good)
    assert pods_created(pods) == created + 1
    assert pods.restarts() == untouched
    pods.wait_event(f"failed ({reason}): Pod {NAME}-", "RevisionFailed")
    pods.wait_event(sentence, "RevisionFailed")


@pytest.mark.parametrize(
    ("spec", "reason", "sentence"),
    [
        (
            {"accelerator": {"deviceMemory": "16"}},
            "PlanImpossible",
            "spec.accelerator.deviceMemory 16 is too small for a single KV block. Raise deviceMemory",
        ),
        (
            {"model": {"source": {"ociImage": None, "hostPath": {"path": "/models/tiny"}}}},
            "HostPathNotAllowed",
            " is not allowed by this installation in namespace ",
        ),
    ],
    ids=["no block fits", "hostPath is not allowed"],
)
def test_impossible_spec_is_refused_without_a_pod(
    good: Resource, pods: Pods, untouched: dict[str, int], spec: dict[str, Any], reason: str, sentence: str
) -> None:
    created = pods_created(pods)
    revision = next(good.states(PATIENCE))["status"]["revision"]["current"]
    good.patch(spec)
    state = stalled(good, reason)
    for kind, status in (("PlanAccepted", "False"), ("Ready", "False"), ("Available", "True")):
        assert condition(state, kind)["status"] == status
    assert sentence in condition(state, "Stalled")["message"]
    reconcile_again(good)
    assert (pods_created(pods), pods.restarts()) == (created, untouched)
    assert next(good.states(PATIENCE))["status"]["revision"]["current"] == revision
    pods.wait_event(sentence, "PlanRefused")
