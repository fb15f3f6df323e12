"""Generate mutants: mutmut's operators and our string operators, applied to one place of a function at a time.

mutmut copies a function once for each change, so it cannot change decorated functions. Our mutants replace the code of
the function in the running process, so that properties and validators are changed, too. Module constants, class bodies
and default values are not changed, because they run only once, at import.
"""

import difflib
import gc
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import CodeType, FunctionType

import libcst as cst
import libcst.matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.file_mutation import Mutation, MutationVisitor, deep_replace
from mutmut.mutation.mutators import mutation_operators, operator_arg_removal, operator_string
from mutmut.mutation.pragma_handling import IgnoredCode

from tests.mutants import texts


def arguments(node: cst.Call) -> Iterator[cst.Call]:
    """Apply mutmut's argument changes, except those without an effect: of `strict`, and from False to None."""
    kept = [each for each in node.args if not (each.keyword and each.keyword.value == "strict")]
    for changed in operator_arg_removal(node):
        old, new = set(node.args) - set(changed.args), set(changed.args) - set(node.args)
        same = any(_is(each, "False") for each in old) and any(_is(each, "None") for each in new)
        if old <= set(kept) and not same:
            yield changed


def _is(argument: cst.Arg, name: str) -> bool:
    return isinstance(argument.value, cst.Name) and argument.value.value == name


INSTEAD = {
    operator_arg_removal: arguments,
    # Use only the first change of a text. The others change only the case of its letters, which no test must notice.
    operator_string: lambda node: islice(operator_string(node), 1),
}
OPERATORS = [*((kind, INSTEAD.get(operator, operator)) for kind, operator in mutation_operators), *texts.OPERATORS]

Key = tuple[Path, str, int]
"""The path of a module, the qualified name of a function, and its first line."""


class Visitor(MutationVisitor):
    """Selects nodes in the same way as mutmut, and also visits decorated functions."""

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Param) or (
            isinstance(node, cst.Arg) and node.keyword and node.keyword.value == "strict"
        ):
            return True
        if isinstance(node, cst.FunctionDef):
            node = node.with_changes(decorators=())
        return super()._skip_node_and_children(node)


@dataclass(frozen=True, eq=False)
class Mutant:
    """One change of one function."""

    path: Path
    function: str
    line: int
    module: cst.Module
    mutation: Mutation

    @cached_property
    def text(self) -> str:
        """Return the module with the change."""
        changed = deep_replace(self.module, self.mutation.original_node, self.mutation.mutated_node)
        assert isinstance(changed, cst.Module)
        return changed.code

    @property
    def depends_on_strings(self) -> bool:
        """Return True if the change has an effect only for strings."""
        return texts.depends_on_strings(self.mutation.mutated_node)

    @property
    def key(self) -> Key:
        """Return the key of the changed function."""
        return self.path, self.function, self.line

    @property
    def diff(self) -> list[str]:
        """Return the lines of a unified diff with three lines of context."""
        old, new = self.module.code.splitlines(), self.text.splitlines()
        return list(difflib.unified_diff(old, new, lineterm=""))[2:]

    @property
    def change(self) -> tuple[str, str]:
        """Return the removed and the added lines without indentation, in the format of excused.toml."""
        return (
            " ".join(line[1:].strip() for line in self.diff if line[0] == "-"),
            " ".join(line[1:].strip() for line in self.diff if line[0] == "+"),
        )

    def apply(self, functions: Mapping[Key, list[FunctionType]]) -> None:
        """Replace the code of the function in this process.

        Raises SyntaxError or ValueError if the change results in an invalid function.
        """
        with warnings.catch_warnings(action="ignore"):
            codes = codes_of(compile(self.text, str(self.path), "exec", dont_inherit=True), self.path)
        for function in functions[self.key]:
            function.__code__ = codes[self.key]


def mutants(path: Path) -> Iterator[Mutant]:
    """Return all changes of a module."""
    text = path.read_text()
    codes = codes_of(compile(text, str(path), "exec", dont_inherit=True), path)
    wrapper = MetadataWrapper(cst.parse_module(text))
    visitor = Visitor(OPERATORS, IgnoredCode(set(), set(), set()))
    wrapper.visit(visitor)
    positions, names = wrapper.resolve(PositionProvider), dict(_names(wrapper.module))
    # Skip mutations that replace one part of an implicit concatenation, such as "one" f"{two}", with a call. The result
    # would not be valid Python.
    parts = {id(part) for each in m.findall(wrapper, m.ConcatenatedString()) for part in each.children}
    for mutation in visitor.mutations:
        node = mutation.contained_by_top_level_function
        possible = isinstance(mutation.mutated_node, cst.BaseString) or id(mutation.original_node) not in parts
        if isinstance(node, cst.FunctionDef) and possible:
            line = positions[node].start.line
            # Select the last code object of this name up to the function's line. The code object of a decorated
            # function starts at its first decorator, before this line.
            key = max(key for key in codes if key[1] == names[node] and key[2] <= line)
            yield Mutant(path, key[1], key[2], wrapper.module, mutation)


def _names(module: cst.Module) -> Iterator[tuple[cst.FunctionDef, str]]:
    for node in module.body:
        if isinstance(node, cst.FunctionDef):
            yield node, node.name.value
        elif isinstance(node, cst.ClassDef):
            inner = (each for each in node.body.body if isinstance(each, cst.FunctionDef))
            yield from ((each, f"{node.name.value}.{each.name.value}") for each in inner)


def codes_of(module: CodeType, path: Path) -> dict[Key, CodeType]:
    """Return the functions and methods of a compiled module."""
    found = {}
    inner = [each for each in module.co_consts if isinstance(each, CodeType)]
    while inner:
        code = inner.pop()
        found[path, code.co_qualname, code.co_firstlineno] = code
        # Search only class bodies, whose code objects do not have the flag CO_NEWLOCALS (0x2). Functions that are
        # defined inside a function belong to the outer function.
        if not code.co_flags & 0x2:
            inner += [each for each in code.co_consts if isinstance(each, CodeType)]
    return found


def functions_by_key(paths: Iterable[Path]) -> dict[Key, list[FunctionType]]:
    """Return the function objects of modules, including functions inside decorators and classes."""
    wanted = {str(path): path for path in paths}
    found: dict[Key, list[FunctionType]] = {}
    for each in gc.get_objects():
        if type(each) is FunctionType and (path := wanted.get(each.__code__.co_filename)):
            found.setdefault((path, each.__code__.co_qualname, each.__code__.co_firstlineno), []).append(each)
    return found
