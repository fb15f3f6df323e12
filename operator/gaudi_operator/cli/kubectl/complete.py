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
ValueSource = Callable[[Mapping[str, str]], Iterable[str]]
"""A function that returns names from the cluster for the given parameters (name of the parameter -> value)."""


@dataclass
class CommandLine:
    """The command line to complete: its command, the given values, and the option that still needs a value."""

    command: Any
    parameter_values: dict[str, str] = field(default_factory=dict)
    pending_option: Any = None


def parse_words(command: Any, words: Sequence[str]) -> CommandLine:
    """Parse the words before the word to complete. Unknown words are skipped."""
    line = CommandLine(command)
    for word in words:
        if line.pending_option is not None:
            line.parameter_values[line.pending_option.name] = word
            line.pending_option = None
        elif word.startswith("-"):
            _parse_option(line, word)
        elif word in getattr(line.command, "commands", {}):
            line.command = line.command.commands[word]
        elif (argument := _next_argument(line)) is not None:
            line.parameter_values[argument.name] = word
    return line


def _parse_option(line: CommandLine, word: str) -> None:
    name, equals, value = word.partition("=")
    option = next((option for option in _visible_options(line.command) if name in option.opts), None)
    if option is None or option.is_flag:
        return
    if equals:
        line.parameter_values[option.name] = value
    else:
        line.pending_option = option


def _visible_options(command: Any) -> list[Any]:
    return [parameter for parameter in command.params if parameter.param_type_name == "option" and not parameter.hidden]


def _next_argument(line: CommandLine) -> Any | None:
    """Return the next positional argument that has no value; None if all arguments have values."""
    arguments = [parameter for parameter in line.command.params if parameter.param_type_name == "argument"]
    return next((argument for argument in arguments if argument.name not in line.parameter_values), None)


def completion_lines(command: Any, words: Sequence[str], value_sources: Mapping[str, ValueSource]) -> list[str]:
    """Return the completions of a command line as lines to print.

    `value_sources` maps the name of a parameter to a function that lists values from the cluster.
    """
    *previous_words, incomplete_word = words or [""]
    line = parse_words(command, previous_words)
    option_name, equals, value = incomplete_word.partition("=")
    if line.pending_option is None and equals and option_name.startswith("-"):
        _parse_option(line, f"{option_name}=")
        option = next((option for option in _visible_options(line.command) if option_name in option.opts), None)
        return _value_completions(option, line, value_sources, value, f"{option_name}=")
    if line.pending_option is not None:
        return _value_completions(line.pending_option, line, value_sources, incomplete_word)
    if incomplete_word.startswith("-"):
        options = {
            name: option.help
            for option in _visible_options(line.command)
            for name in option.opts
            if name.startswith("--")
        }
        return [*_matching_lines({**options, "--help": "Show this message and exit."}, incomplete_word), NOTHING_ELSE]
    if commands := getattr(line.command, "commands", {}):
        help_texts = {name: subcommand.get_short_help_str() for name, subcommand in commands.items()}
        return [*_matching_lines(help_texts, incomplete_word), NOTHING_ELSE]
    return _value_completions(_next_argument(line), line, value_sources, incomplete_word)


def _value_completions(
    parameter: Any, line: CommandLine, value_sources: Mapping[str, ValueSource], incomplete_word: str, prefix: str = ""
) -> list[str]:
    """Return the completions of a parameter: its choices, names from the cluster, or the directive for file names."""
    if parameter is None:
        return [NOTHING_ELSE]
    value_type = parameter.type_descriptor.annotation
    if isinstance(value_type, type) and issubclass(value_type, Enum):
        candidates: Iterable[str] = [str(member.value) for member in value_type]
    elif parameter.name in value_sources:
        candidates = value_sources[parameter.name](line.parameter_values)
    else:
        return [FILES if parameter.name in ("kubeconfig", "output") else NOTHING_ELSE]
    resource_kind, slash, name = incomplete_word.rpartition("/")
    if slash and parameter.name == "name" and resource_kind.lower() in KINDS:
        prefix, incomplete_word = f"{prefix}{resource_kind}/", name
    return [*(f"{prefix}{value}" for value in sorted(candidates) if value.startswith(incomplete_word)), NOTHING_ELSE]


def _matching_lines(meanings: Mapping[str, str | None], incomplete: str) -> list[str]:
    return [f"{name}\t{meaning or ''}".rstrip() for name, meaning in meanings.items() if name.startswith(incomplete)]


def _open_cluster(values: Mapping[str, str]) -> "Cluster":
    from gaudi_operator.cli.cluster import Cluster, Connection

    return Cluster(Connection(values.get("kubeconfig"), values.get("context"), values.get("namespace")))


def _context_names(values: Mapping[str, str]) -> list[str]:
    from gaudi_operator.cli.cluster import Connection

    return Connection(values.get("kubeconfig")).context_names()


def _resource_name(values: Mapping[str, str]) -> str:
    return values.get("name", "").removeprefix(f"{SINGULAR}/").rpartition("/")[2]


CLUSTER_VALUE_SOURCES: Mapping[str, ValueSource] = {
    "name": lambda values: (resource["metadata"]["name"] for resource in _open_cluster(values).list_inferences()),
    "pod": lambda values: (pod["metadata"]["name"] for pod in _open_cluster(values).list_pods(_resource_name(values))),
    "revision": lambda values: _revision_numbers(values),
    "to_revision": lambda values: _revision_numbers(values),
    "namespace": lambda values: _open_cluster(values).list_namespaces(),
    "context": _context_names,
}


def _revision_numbers(values: Mapping[str, str]) -> list[str]:
    return [str(revision["revision"]) for revision in _open_cluster(values).list_revisions(_resource_name(values))]


def suppress_errors(source: ValueSource) -> ValueSource:
    """Wrap `source` so that an error gives no values. Completion prints nothing if the cluster does not respond."""

    def list_values(values: Mapping[str, str]) -> Iterable[str]:
        with suppress(ConfigError):
            return list(source(values))
        return []

    return list_values


def main() -> None:
    """Run the completion command."""
    from gaudi_operator.cli.kubectl.app import app

    value_sources = {name: suppress_errors(source) for name, source in CLUSTER_VALUE_SOURCES.items()}
    sys.stdout.writelines(
        f"{line}\n" for line in completion_lines(typer.main.get_command(app), sys.argv[1:], value_sources)
    )
