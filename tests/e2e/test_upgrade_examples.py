"""The scripts of examples/upgrade as a user runs them: real pods, real kills, and a client without retries."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from demo.install import ROOT, Installation
from demo.load import Answer, parse_answers
from demo.resource import Resource, condition
from localcluster import tools
from tests.e2e.gates import GateRecorder
from tests.e2e.pods import Pods

FOLDER = ROOT / "examples" / "upgrade"
NAME = "walkthrough"
PATIENCE = 60


@dataclass(frozen=True)
class Ending:
    """The expected result of a script: the status, the failure reasons, and the number of revisions that answered."""

    status: str
    failed: tuple[str, ...] = ()
    answering: int = 1


ENDINGS = {
    "1-good-upgrade": Ending("Serving", answering=2),
    "2-bad-plan": Ending("RolledBack", ("CapturedBelowThreshold",)),
    "3-out-of-memory": Ending("RolledBack", ("CapturedBelowThreshold", "HostOutOfMemory")),
    "4-stall": Ending("RolledBack", ("WarmupStalled",)),
    "5-no-free-card": Ending("Serving", answering=3),
    "6-pause-resume": Ending("Serving", answering=2),
    "7-undo": Ending("Serving", answering=2),
}


@pytest.fixture(scope="module")
def shell(installed: Installation, namespace: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment variables of a user's shell, with kubectl, its plugin, and a context for the namespace."""
    config = yaml.safe_load(installed.kubeconfig.read_text())
    for each in config["contexts"]:
        each["context"]["namespace"] = namespace
    kubeconfig = tmp_path_factory.mktemp("shell") / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    path = f"{Path(sys.executable).parent}:{tools().bin_dir}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig)}


@pytest.mark.parametrize("script", ENDINGS)
def test_script_ends_as_expected_and_no_request_fails(
    installed: Installation, namespace: str, shell: dict[str, str], script: str
) -> None:
    with GateRecorder(str(installed.kubeconfig), namespace) as gates:
        done = subprocess.run([FOLDER / f"{script}.sh"], env=shell, capture_output=True, text=True, check=False)
    sys.stdout.write(done.stdout)  # `pytest -rP` shows what a user reads
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("PASSED\n")
    ending, pods = ENDINGS[script], Pods(installed, namespace, NAME)
    answers = parse_answers(pods.kubectl("logs", f"{NAME}-client"))
    assert [answer.error for answer in answers if answer.error] == []
    assert len(answering_revisions(answers, gates)) == ending.answering
    assert_ending(
        pods, Resource(str(installed.kubeconfig), namespace, NAME), ending, answering_revisions(answers, gates)
    )


def answering_revisions(answers: list[Answer], gates: GateRecorder) -> set[str]:
    """Return the revisions whose pods answered.

    Raise KeyError if a pod answered before the watch showed the pod's gate as open.
    """
    return {gates.revisions[answer.instance] for answer in answers}


def assert_ending(pods: Pods, resource: Resource, ending: Ending, answering: set[str]) -> None:
    """Assert that the table row, the conditions, the history and the events show the expected result."""
    header, row = pods.kubectl("get", "gi", NAME).splitlines()
    shown = dict(zip(header.split(), row.split(), strict=True))
    assert (shown["STATUS"], shown["READY"]) == (ending.status, "2")
    state = next(resource.states(PATIENCE))
    bad = bool(ending.failed)
    desired = {"Ready": not bad, "Stalled": bad, "Reconciling": False, "Available": True, "Degraded": False}
    assert {kind: condition(state, kind)["status"] for kind in desired} == {
        kind: str(value) for kind, value in desired.items()
    }
    kept = {each["name"]: each.get("reason") for each in state["status"]["revisions"]}
    assert tuple(reason for reason in reversed(kept.values()) if reason) == ending.failed
    assert state["status"]["revision"]["current"] in answering
    assert not any(kept[name] for name in answering), "a revision that failed has answered requests"
    for reason in ending.failed:
        pods.wait_event(f"failed ({reason}): ", "RevisionFailed")
