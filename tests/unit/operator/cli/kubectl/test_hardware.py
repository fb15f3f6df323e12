"""`kubectl gaudi hardware-report`: the trial pod and its report."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gaudi_operator.cli.kubectl.app import app
from gaudi_operator.cli.kubectl.hardware import cluster_facts, read_report, trial_pod, why_not_started
from gaudi_operator.cli.kubectl.options import CommandError
from gaudi_operator.core.names import GROUP_SIZE_ANNOTATION, NAME_LABEL
from gaudi_runtime.hardware.report import HardwareReport, Proof, ProofOutcome
from tests.unit.runtime.hardware.test_proofs import facts


def pod(**metadata: Any) -> dict[str, Any]:
    runtime = {
        "name": "runtime",
        "image": "hpu:1",
        "args": ["serve"],
        "readinessProbe": {},
        "livenessProbe": {},
        "lifecycle": {},
        "resources": {"limits": {"habana.ai/gaudi": "1"}},
    }
    spec = {
        "containers": [runtime],
        "nodeName": "node-1",
        "priority": 0,
        "readinessGates": [{"conditionType": "inference.gaudi.dev/warmed-up"}],
        "nodeSelector": {"cards": "yes"},
    }
    fields = {"name": "chat-1", "creationTimestamp": "2026-11-23T10:00:00Z", "labels": {NAME_LABEL: "chat"}}
    return {"metadata": {**fields, **metadata}, "spec": spec}


def test_trial_has_image_cards_and_node_selector_of_the_resource() -> None:
    made = trial_pod("chat", [pod()], 60)["spec"]
    assert made["containers"][0]["image"] == "hpu:1"
    assert made["containers"][0]["resources"] == {"limits": {"habana.ai/gaudi": "1"}}
    assert made["nodeSelector"] == {"cards": "yes"}


def test_trial_has_no_label_that_services_or_workloads_select() -> None:
    assert NAME_LABEL not in trial_pod("chat", [pod()], 60)["metadata"]["labels"]


def test_trial_is_not_bound_to_the_node_of_its_pattern() -> None:
    assert not {"nodeName", "priority", "readinessGates"} & set(trial_pod("chat", [pod()], 60)["spec"])


def test_trial_has_no_probes_and_is_never_restarted() -> None:
    made = trial_pod("chat", [pod()], 60)["spec"]
    assert not {"readinessProbe", "livenessProbe", "lifecycle"} & set(made["containers"][0])
    assert (made["restartPolicy"], made["activeDeadlineSeconds"]) == ("Never", 60)


def test_trial_copies_the_youngest_pod() -> None:
    young = pod(creationTimestamp="2026-11-23T11:00:00Z")
    young["spec"]["containers"][0]["image"] = "hpu:2"
    assert trial_pod("chat", [young, pod()], 60)["spec"]["containers"][0]["image"] == "hpu:2"


def test_resource_without_a_pod_is_refused() -> None:
    with pytest.raises(CommandError, match="Set its replicas to 1 or more"):
        trial_pod("chat", [], 60)


def test_group_of_pods_is_refused() -> None:
    with pytest.raises(CommandError, match="groups of pods"):
        trial_pod("chat", [pod(annotations={GROUP_SIZE_ANNOTATION: "2"})], 60)


def test_report_is_read_from_the_last_line_that_parses() -> None:
    report = facts()
    assert read_report(f"Starting\n{report.model_dump_json(by_alias=True)}\nwarning: late\n") == report


def test_missing_report_error_shows_the_end_of_the_log() -> None:
    with pytest.raises(CommandError, match="The end of its log: Killed"):
        read_report("Starting\nKilled\n\n")


def test_waiting_reason_of_an_unscheduled_pod_is_the_schedulers_message() -> None:
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "Insufficient habana.ai/gaudi"}
    assert why_not_started({"status": {"conditions": [unscheduled]}}) == "Insufficient habana.ai/gaudi"


def test_waiting_reason_of_a_container_is_shown_with_its_message() -> None:
    waiting = {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
    assert why_not_started({"status": {"containerStatuses": [waiting]}}) == "ErrImagePull: no such image"


def test_report_has_the_cards_and_kernel_of_the_node() -> None:
    node = {"status": {"allocatable": {"habana.ai/gaudi": "8", "cpu": "64"}, "nodeInfo": {"kernelVersion": "6.8"}}}
    assert cluster_facts(pod(), node) == {"image": "hpu:1", "kernelVersion": "6.8", "habana.ai/gaudi": "8"}


def test_report_has_only_the_image_if_nodes_are_unreadable() -> None:
    assert cluster_facts(pod(), {}) == {"image": "hpu:1"}


class EndedTrial:
    """A cluster in which the trial pod ends immediately with this log."""

    def __init__(self, log: str) -> None:
        """Create a cluster without trial pods."""
        self.log, self.left = log, list[str]()

    def list_pods(self, name: str) -> list[Any]:
        return [pod()]

    def create_pod(self, name: str, pod: Any) -> str:
        self.left.append("trial")
        return "trial"

    def read_pod(self, name: str, trial: str) -> Any:
        return {**pod(), "status": {"phase": "Succeeded"}}

    def read_pod_log(self, name: str, trial: str) -> str:
        return self.log

    def delete_pod(self, name: str, trial: str) -> None:
        self.left.remove(trial)

    def read_node(self, name: str) -> Any:
        return {}


@pytest.fixture
def report_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], tuple[int, list[str]]]:
    """Return a function that runs the command and returns the exit code and the remaining trial pods."""

    def run(log: str) -> tuple[int, list[str]]:
        cluster = EndedTrial(log)
        monkeypatch.setattr("gaudi_operator.cli.cluster.Cluster", lambda _: cluster)
        done = CliRunner().invoke(app, ["hardware-report", "chat", "-o", str(tmp_path / "report.json")])
        return done.exit_code, cluster.left

    return run


def proofs(*outcomes: ProofOutcome, ended: str | None = None) -> HardwareReport:
    """Return a report whose proofs have these outcomes."""
    return facts(proofs=tuple(Proof(name="gate", outcome=each, evidence="") for each in outcomes), ended=ended)


EXIT_CODES = [
    (proofs(ProofOutcome.PROVEN, ProofOutcome.NOT_TRIED), 0),
    (proofs(ProofOutcome.PROVEN, ProofOutcome.DISPROVEN), 1),
    (proofs(ProofOutcome.PROVEN, ended="Its process ended with 1."), 1),
]


@pytest.mark.parametrize(("report", "code"), EXIT_CODES, ids=["not tried", "disproven", "ended early"])
def test_exit_code_is_0_if_no_proof_failed(
    report_of: Callable[[str], tuple[int, list[str]]], report: HardwareReport, code: int
) -> None:
    assert report_of(report.model_dump_json(by_alias=True))[0] == code


def test_trial_is_deleted_even_if_it_wrote_no_report(report_of: Callable[[str], tuple[int, list[str]]]) -> None:
    assert report_of("Killed") == (1, [])
