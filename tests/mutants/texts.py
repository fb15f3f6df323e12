"""Change strings: drop the last character of a string, or compare strings in another way.

The syntax does not show which values are strings. The changed code therefore calls the functions below, which change
strings and return other values unchanged. If a place processes no strings, its change is not counted.
"""

import builtins
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import libcst as cst
import libcst.matchers as m

ENOUGH_VALUES = 20
"""The number of values after which a place without any string is taken to process no strings."""
PROSE_BLANKS = 3
"""A string with this many blanks is a sentence, and its last character is the full stop."""


@dataclass
class Passed:
    """The number of all values, and the number of strings, that the changed place processed in this process."""

    values: int = 0
    strings: int = 0

    @property
    def no_strings(self) -> bool:
        """Return True if enough values were processed to conclude that none is a string."""
        return self.values >= ENOUGH_VALUES and not self.strings


passed = Passed()


def _are_strings(*values: object) -> bool:
    found = all(type(each) in (str, bytes) and each for each in values)
    passed.values += 1
    passed.strings += found
    return found


def cut_text(value: Any) -> Any:
    """Return a string without its last character.

    If the last character is a full stop, remove the character before it.
    """
    return value[:-1] if str(value).count(" ") < PROSE_BLANKS and _are_strings(value) else value


def same_start(left: Any, right: Any) -> bool:
    """Return True if one of two strings begins with the other. Replaces `left == right`."""
    # For single characters, a common beginning means equality, so the comparison is only changed for longer strings.
    if type(left) is type(right) and len(str(left) + str(right)) > 2 and _are_strings(left, right):
        return bool(left.startswith(right) or right.startswith(left))
    return bool(left == right)


def starts_among(value: Any, others: Collection[Any]) -> bool:
    """Return True if `value` and one of `others` begin alike. Replaces `value in others`."""
    if isinstance(others, str | bytes):
        return value in others
    alike = [same_start(value, each) for each in others]
    return value in others or any(alike)


def same_text(value: Any, part: Any) -> bool:
    """Return True if both strings are equal. Replaces `value.startswith(part)` and `value.endswith(part)`."""
    return value in part if isinstance(part, tuple) else bool(value == part)


def holds_text(value: Any, part: Any) -> bool:
    """Return True if the string contains the part. Replaces `value.startswith(part)` and `value.endswith(part)`."""
    return any(each in value for each in (part if isinstance(part, tuple) else (part,)))


FUNCTIONS: tuple[Callable[..., Any], ...] = (cut_text, same_start, starts_among, same_text, holds_text)
_NAMES = frozenset(each.__name__ for each in FUNCTIONS)


def install() -> None:
    """Define the functions as names that changed code can call."""
    for each in FUNCTIONS:
        setattr(builtins, each.__name__, each)


def depends_on_strings(changed: cst.CSTNode) -> bool:
    """Return True if a change has an effect only for strings."""
    called = (each.func for each in m.findall(changed, m.Call(func=m.Name())))
    return any(isinstance(each, cst.Name) and each.value in _NAMES for each in called)


def _call(function: Callable[..., Any], *values: cst.BaseExpression) -> cst.Call:
    return cst.Call(cst.Name(function.__name__), [cst.Arg(each) for each in values])


_NO_STRINGS = ("None", "True", "False", "self")
_VALUE = m.Attribute() | m.Call() | m.Name(m.MatchIfTrue(lambda name: name not in _NO_STRINGS))


def cut_argument(node: cst.Arg) -> Iterator[cst.Arg]:
    """Change `f(value)` to `f(value[:-1])`."""
    if not node.star and m.matches(node.value, _VALUE):
        yield node.with_changes(value=_call(cut_text, node.value))


def cut_answer(node: cst.Return) -> Iterator[cst.Return]:
    """Change `return value` to `return value[:-1]`."""
    if node.value and m.matches(node.value, _VALUE):
        yield node.with_changes(value=_call(cut_text, node.value))


def cut_made_text(node: cst.FormattedString | cst.Subscript) -> Iterator[cst.Call]:
    """Change `f"{name}."` and `name[:5]` to strings without the last character."""
    if isinstance(node, cst.FormattedString) or m.matches(node, m.Subscript(slice=[m.SubscriptElement(m.Slice())])):
        yield _call(cut_text, node)


def cut_prefix(node: cst.Call) -> Iterator[cst.CSTNode]:
    """Change `name.startswith("LD_")` to `name.startswith("LD")`.

    If there are several prefixes, change each of them.
    """
    if m.matches(node.func, m.Attribute(attr=m.Name("startswith"))):
        for prefix in (each for argument in node.args for each in m.findall(argument, m.SimpleString())):
            assert isinstance(prefix, cst.SimpleString)
            yield node.deep_replace(prefix, _call(cut_text, prefix))  # type: ignore[arg-type]


def compare_parts(node: cst.Call) -> Iterator[cst.Call]:
    """Change `name.startswith(part)` and `name.endswith(part)` to `name == part` and `part in name`."""
    method = m.Attribute(attr=m.Name("startswith") | m.Name("endswith"))
    if m.matches(node, m.Call(func=method, args=[m.Arg()])):
        assert isinstance(node.func, cst.Attribute)
        for function in (same_text, holds_text):
            yield _call(function, node.func.value, node.args[0].value)


def compare_starts(node: cst.Comparison) -> Iterator[cst.BaseExpression]:
    """Change `a == b` and `a in b` to compare how strings begin, or strings without their last characters."""
    if len(node.comparisons) != 1:
        return
    left, (target,) = node.left, node.comparisons
    operator, right = target.operator, target.comparator
    if isinstance(operator, cst.Equal | cst.NotEqual | cst.In | cst.NotIn):
        function = same_start if isinstance(operator, cst.Equal | cst.NotEqual) else starts_among
        call = _call(function, left.with_changes(lpar=[], rpar=[]), right.with_changes(lpar=[], rpar=[]))
        negated = isinstance(operator, cst.NotEqual | cst.NotIn)
        yield cst.UnaryOperation(cst.Not(), call, lpar=[cst.LeftParen()], rpar=[cst.RightParen()]) if negated else call
    if isinstance(operator, cst.Equal | cst.NotEqual):
        yield node.with_changes(
            left=_call(cut_text, left), comparisons=[target.with_changes(comparator=_call(cut_text, right))]
        )


OPERATORS: list[tuple[type, Callable[[Any], Iterator[cst.CSTNode]]]] = [
    (cst.Arg, cut_argument),
    (cst.Return, cut_answer),
    (cst.FormattedString, cut_made_text),
    (cst.Subscript, cut_made_text),
    (cst.Call, cut_prefix),
    (cst.Call, compare_parts),
    (cst.Comparison, compare_starts),
]
