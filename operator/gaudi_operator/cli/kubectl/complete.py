"""`kubectl_complete-gaudi`: the shell completion, which kubectl runs when the user presses Tab.

kubectl passes the words after `kubectl gaudi`. The last word is incomplete. The program prints one candidate per line,
followed by a tab and a description. The last line is a directive for the shell: `:4` means no other completions, and
`:0` means file names. Options come from the definitions of the commands. Names come from the cluster if the cluster
responds.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import typer

from gaudi_operator.api.v1alpha1.resource import SINGULAR
from gaudi_operator.cli.kubectl.options import KINDS
from gaudi_runtime.errors import ConfigError

if TYPE_CHECKING:
    from gaudi_operator.cli.cluster import Cluster

FILES, NOTHING_ELSE = ":0", ":4"
Ask = Callable[[Mapping[str, str]], Iterable[str]]
"""A function that returns names from the cluster for the given parameters (name of the parameter -> value)."""


@dataclass
class CommandLine:
    """The command line to complete: its command, the given values, and the option that still needs a value."""

    command: Any
    given: dict[str, str] = field(default_factory=dict)
    waiting: Any = None


def parse_words(command: Any, words: Sequence[str]) -> CommandLine:
    """Parse the words before the word to complete. Unknown words are skipped."""
    line = CommandLine(command)
    for word in words:
        if line.waiting is not None:
            line.given[line.waiting.name] = word
            line.waiting = None
        elif word.startswith("-"):
            _parse_option(line, word)
        elif word in getattr(line.command, "commands", {}):
            line.command = line.command.commands[word]
        elif (argument := _next_argument(line)) is not None:
            line.given[argument.name] = word
    return line


def _parse_option(line: CommandLine, word: str) -> None:
    name, given, value = word.partition("=")
    option = next((each for each in _visible_options(line.command) if name in each.opts), None)
    if option is None or option.is_flag:
        return
    if given:
        line.given[option.name] = value
    else:
        line.waiting = option


def _visible_options(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "option" and not each.hidden]


def _next_argument(line: CommandLine) -> Any | None:
    """Return the next positional argument that has no value; None if all arguments have values."""
    arguments = [each for each in line.command.params if each.param_type_name == "argument"]
    return next((each for each in arguments if each.name not in line.given), None)


def completion_lines(command: Any, words: Sequence[str], ask: Mapping[str, Ask]) -> list[str]:
    """Return the completions of a command line as lines to print.

    `ask` maps the name of a parameter to a function that lists values from the cluster.
    """
    *before, begun = words or [""]
    line = parse_words(command, before)
    start, equals, value = begun.partition("=")
    if line.waiting is None and equals and start.startswith("-"):
        _parse_option(line, f"{start}=")
        waiting = next((each for each in _visible_options(line.command) if start in each.opts), None)
        return _value_completions(waiting, line, ask, value, f"{start}=")
    if line.waiting is not None:
        return _value_completions(line.waiting, line, ask, begun)
    if begun.startswith("-"):
        options = {
            name: each.help for each in _visible_options(line.command) for name in each.opts if name.startswith("--")
        }
        return [*_matching_lines({**options, "--help": "Show this message and exit."}, begun), NOTHING_ELSE]
    if commands := getattr(line.command, "commands", {}):
        return [
            *_matching_lines({name: each.get_short_help_str() for name, each in commands.items()}, begun),
            NOTHING_ELSE,
        ]
    return _value_completions(_next_argument(line), line, ask, begun)


def _value_completions(
    parameter: Any, line: CommandLine, ask: Mapping[str, Ask], begun: str, before: str = ""
) -> list[str]:
    """Return the completions of a parameter: its choices, names from the cluster, or the directive for file names."""
    if parameter is None:
        return [NOTHING_ELSE]
    kind = parameter.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        found: Iterable[str] = [str(each.value) for each in kind]
    elif parameter.name in ask:
        found = ask[parameter.name](line.given)
    else:
        return [FILES if parameter.name in ("kubeconfig", "output") else NOTHING_ELSE]
    prefix, slash, plain = begun.rpartition("/")
    if slash and parameter.name == "name" and prefix.lower() in KINDS:
        before, begun = f"{before}{prefix}/", plain
    return [*(f"{before}{each}" for each in sorted(found) if each.startswith(begun)), NOTHING_ELSE]


def _matching_lines(named: Mapping[str, str | None], begun: str) -> list[str]:
    return [f"{name}\t{meaning or ''}".rstrip() for name, meaning in named.items() if name.startswith(begun)]


def _open_cluster(given: Mapping[str, str]) -> "Cluster":
    from gaudi_operator.cli.cluster import Cluster, Connection

    return Cluster(Connection(given.get("kubeconfig"), given.get("context"), given.get("namespace")))


def _context_names(given: Mapping[str, str]) -> list[str]:
    from gaudi_operator.cli.cluster import Connection

    return Connection(given.get("kubeconfig")).context_names()


def _resource_name(given: Mapping[str, str]) -> str:
    return given.get("name", "").removeprefix(f"{SINGULAR}/").rpartition("/")[2]


OF_THE_CLUSTER: Mapping[str, Ask] = {
    "name": lambda given: (each["metadata"]["name"] for each in _open_cluster(given).list_inferences()),
    "pod": lambda given: (each["metadata"]["name"] for each in _open_cluster(given).list_pods(_resource_name(given))),
    "revision": lambda given: _revision_numbers(given),
    "to_revision": lambda given: _revision_numbers(given),
    "namespace": lambda given: _open_cluster(given).list_namespaces(),
    "context": _context_names,
}


def _revision_numbers(given: Mapping[str, str]) -> list[str]:
    return [str(each["revision"]) for each in _open_cluster(given).list_revisions(_resource_name(given))]


def suppress_errors(ask: Ask) -> Ask:
    """Wrap `ask` so that an error gives no values. Completion prints nothing if the cluster does not respond."""

    def list_values(given: Mapping[str, str]) -> Iterable[str]:
        with suppress(ConfigError):
            return list(ask(given))
        return []

    return list_values


def main() -> None:
    """Run the completion command."""
    from gaudi_operator.cli.kubectl.app import app

    asks = {name: suppress_errors(ask) for name, ask in OF_THE_CLUSTER.items()}
    sys.stdout.writelines(f"{line}\n" for line in completion_lines(typer.main.get_command(app), sys.argv[1:], asks))
