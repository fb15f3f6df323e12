"""Shell completion of `kubectl gaudi`."""

from collections.abc import Mapping

import pytest
import typer

from gaudi_operator.cli.kubectl.app import app
from gaudi_operator.cli.kubectl.complete import completion_lines, main, suppress_errors
from gaudi_runtime.errors import ConfigError

COMMAND = typer.main.get_command(app)
NAMES = {"a": ["chat", "code"], "": ["here"]}


def offered(line: str) -> list[str]:
    """Return the candidates for a command line, without their descriptions.

    The cluster has three resources with pods.
    """
    ask = {
        "name": lambda given: NAMES[given.get("namespace", "")],
        "to_revision": lambda given: ["1", "2"],
        "namespace": lambda given: NAMES,
    }
    return [each.partition("\t")[0] for each in completion_lines(COMMAND, line.split(" "), ask)]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("ga", ["gate", ":4"]),
        ("rollout h", ["history", ":4"]),
        ("status ", ["here", ":4"]),
        ("status -n a c", ["chat", "code", ":4"]),
        ("status --namespace=a ch", ["chat", ":4"]),
        ("status gi/he", ["gi/here", ":4"]),
        ("status here ", [":4"]),
        ("status --na", ["--namespace", ":4"]),
        ("status -n ", ["", "a", ":4"]),
        ("status here -o ", ["json", "text", ":4"]),
        ("status here --output=j", ["--output=json", ":4"]),
        ("status here -w", [":4"]),
        ("rollout undo chat --to-revision=", ["--to-revision=1", "--to-revision=2", ":4"]),
        ("status --kubeconfig ", [":0"]),
        ("nonsense ", None),
    ],
)
def test_completion_offers_valid_continuations(line: str, found: list[str] | None) -> None:
    every = [*COMMAND.commands, ":4"]  # type: ignore[attr-defined]
    assert offered(line) == (every if found is None else found)


def test_subcommand_is_offered_with_its_description() -> None:
    (line, _) = completion_lines(COMMAND, ["why"], {})
    assert line.startswith("why\t")


def test_unreachable_cluster_offers_no_names() -> None:
    def silent(_: Mapping[str, str]) -> list[str]:
        raise ConfigError("no answer")

    assert completion_lines(COMMAND, ["why", ""], {"name": suppress_errors(silent)}) == [":4"]


def test_completion_directive_is_the_last_printed_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl_complete-gaudi", "rollout", "und"])
    main()
    assert capsys.readouterr().out.splitlines()[-1] == ":4"
