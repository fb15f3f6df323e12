"""Arguments, errors and exit codes common to the commands of `kubectl gaudi`."""

import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from gaudi_operator.cli.kubectl.app import app, main
from gaudi_operator.cli.kubectl.learn import UNOBSERVED, ready_pods, why_unobserved
from gaudi_operator.cli.kubectl.options import Refused, plain_name
from gaudi_operator.cli.kubectl.rollout_status import Outcome, RolloutProgressBar, Verdict
from gaudi_operator.cli.plan.options import Form
from tests.support.builders import gaudi_inference


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("rollout", "undo"), 1),
        (("rollout", "forward", "chat"), 1),
        (("rollout", "status", "chat", "--watch=perhaps"), 1),
        (("rollout", "--help"), 0),
    ],
)
def test_usage_error_ends_with_1(arguments: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl-gaudi", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code


def test_unknown_cluster_ends_with_1_and_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    result = call("rollout", "pause", "chat", "--kubeconfig", str(tmp_path / "none"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: no cluster is configured")
    assert len(result.stderr.splitlines()) == 1


def test_missing_client_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gaudi_operator.cli.cluster", raising=False)
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    assert call("rollout", "pause", "chat").stderr == "error: kubernetes is not installed; install the extra `cli`.\n"


@pytest.mark.parametrize("name", ["chat", "gi/chat", "GaudiInference/chat", "gaudiinferences.inference.gaudi.dev/chat"])
def test_kind_may_stand_before_the_name(name: str) -> None:
    assert plain_name(name) == "chat"


def test_another_kind_is_refused() -> None:
    with pytest.raises(Refused, match="deployment is not a GaudiInference"):
        plain_name("deployment/chat")


def test_lines_of_a_pipe_are_whole_and_said_once() -> None:
    out, sentence = StringIO(), "Waiting for " + 40 * "long [words] "
    with RolloutProgressBar(Console(file=out, width=80)) as progress:
        for percent in (1, 2):
            progress.show(Verdict(Outcome.WAITING, sentence, "WarmingUp", percent, "0/1"))
    assert out.getvalue() == sentence + "\n"


def test_terminal_has_a_bar_of_the_warm_up() -> None:
    out = StringIO()
    with RolloutProgressBar(Console(file=out, width=160, force_terminal=True)) as progress:
        progress.show(Verdict(Outcome.WAITING, "Waiting.", "WarmingUp", 45, "1/2"))
    assert "WarmingUp  ready 1/2" in out.getvalue()
    assert "45%" in out.getvalue()


def test_only_ready_pods_that_stay_are_asked_for_traffic() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    pods = [
        {"metadata": {"name": "serves"}, "status": ready},
        {"metadata": {"name": "ends", "deletionTimestamp": "now"}, "status": ready},
        {"metadata": {"name": "warms"}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        {"metadata": {"name": "new"}},
    ]
    assert ready_pods(pods) == ["serves"]


@pytest.mark.parametrize(
    ("canary", "form", "warnings"),
    [
        ({"observeSeconds": 0}, Form.OPTIMAL, [UNOBSERVED]),
        ({"observeSeconds": 0}, Form.FILE, []),
        ({"observeSeconds": 60}, Form.OPTIMAL, []),
        ({}, Form.OPTIMAL, []),
    ],
)
def test_learned_plan_that_no_canary_observes_is_warned_of(
    canary: dict[str, int], form: Form, warnings: list[str]
) -> None:
    metadata = {"namespace": "default", "uid": "1", "generation": 1}
    resource = gaudi_inference(rollout={"canary": canary})
    assert why_unobserved({**resource, "metadata": {**resource["metadata"], **metadata}}, form) == warnings
