"""Arguments, errors and exit codes common to the commands of `kubectl gaudi`."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gaudi_operator.cli.kubectl.app import app, main
from gaudi_operator.cli.kubectl.selected_resource import ResourceCommandError, parse_resource_name


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
def test_usage_errors_exit_with_1_and_help_with_0(
    arguments: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl-gaudi", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code


def test_missing_cluster_configuration_exits_with_1_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    result = call("rollout", "pause", "chat", "--kubeconfig", str(tmp_path / "none"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: no cluster is configured")
    assert len(result.stderr.splitlines()) == 1


def test_missing_kubernetes_client_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gaudi_operator.cli.cluster", raising=False)
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    assert call("rollout", "pause", "chat").stderr == "error: kubernetes is not installed. Install the extra `cli`.\n"


@pytest.mark.parametrize("name", ["chat", "gi/chat", "GaudiInference/chat", "gaudiinferences.inference.gaudi.dev/chat"])
def test_name_may_be_prefixed_with_its_kind(name: str) -> None:
    assert parse_resource_name(name) == "chat"


def test_name_of_another_kind_is_refused() -> None:
    with pytest.raises(ResourceCommandError, match="deployment is not a GaudiInference"):
        parse_resource_name("deployment/chat")
