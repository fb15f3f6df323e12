"""The commands of the kubectl plugin. For `kubectl gaudi`, kubectl runs the program `kubectl-gaudi` on the PATH."""

import sys

import typer

from gaudi_operator.cli.kubectl.gate import open_gate
from gaudi_operator.cli.kubectl.learn import learn
from gaudi_operator.cli.kubectl.rollout import pause, restart, resume
from gaudi_operator.cli.kubectl.rollout_history import rollout_history
from gaudi_operator.cli.kubectl.rollout_status import rollout_status
from gaudi_operator.cli.kubectl.status import status
from gaudi_operator.cli.kubectl.undo import undo
from gaudi_operator.cli.options import add_version_option

HELP = """Show the state of GaudiInference resources and manage their rollouts, with the verbs of kubectl rollout.

\b
Start with:
  kubectl gaudi status chat             pods, why the model is not Ready, and the next command; -w keeps watching
  kubectl gaudi rollout status chat     wait until the rollout is complete or has failed
  kubectl gaudi rollout history chat    kept revisions
  kubectl gaudi rollout undo chat       go back to the previous revision
  kubectl gaudi plan learn chat         buckets for the traffic that the pods served
  kubectl gaudi gate open POD           let a warm pod serve while no operator runs
"""


def _command_group(help: str) -> typer.Typer:  # noqa: A002 - as typer calls it
    return typer.Typer(
        name="kubectl gaudi",
        help=help,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


app, rollout, plan = _command_group(HELP), _command_group("Manage a rollout."), _command_group("Plan buckets.")
gate = _command_group("Readiness gates, for a cluster whose operator does not run.")
add_version_option(app, "kubectl gaudi")
rollout.command("history")(rollout_history)
for command in (undo, pause, resume, restart):
    rollout.command()(command)
rollout.command("status")(rollout_status)
plan.command()(learn)
gate.command("open")(open_gate)
app.command()(status)
app.add_typer(rollout, name="rollout")
app.add_typer(plan, name="plan")
app.add_typer(gate, name="gate")


def main() -> None:
    """Run the console script. Every error, including a wrong command line, exits with code 1 as in kubectl."""
    try:
        app(prog_name="kubectl gaudi")
    except SystemExit as error:
        sys.exit(1 if error.code else 0)
