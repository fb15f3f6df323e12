"""The evaluation of admission policies without an API server, with the CEL library of Google.

Unlike the API server, this evaluation does not check the types of expressions against the schema of the parameters, and
has no cost limit. tests/cluster/test_admission_policies.py tests types and cost on an API server.
"""

import ipaddress
from collections.abc import Iterator
from functools import cache
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

from gaudi_operator.core.quantities import parse_quantity
from tests.support.builders import Object

_NAMES = ("object", "oldObject", "request", "params", "namespaceObject", "variables")


def messages(
    policy: Object,
    new: Object,
    old: Object | None = None,
    params: Object | None = None,
    labels: Object | None = None,
    request: Object | None = None,
) -> list[str]:
    """Return the messages with which a policy denies the creation of `new`, or the update from `old` to `new`.

    `request` contains further members of the request, such as its resource.
    """
    spec = policy["spec"]
    data: dict[str, Any] = {
        "object": new,
        "oldObject": old,
        "request": {"operation": "UPDATE" if old else "CREATE", **(request or {})},
        "params": params,
        "namespaceObject": {"metadata": {"name": new["metadata"]["namespace"], "labels": labels or {}}},
        "variables": {},
    }
    if not all(_value(each["expression"], data) for each in spec["matchConditions"]):
        return []
    for variable in spec.get("variables", ()):
        data["variables"][variable["name"]] = _value(variable["expression"], data)
    return list(_failed(spec["validations"], data))


def _failed(validations: list[Object], data: dict[str, Any]) -> Iterator[str]:
    for each in validations:
        if not _value(each["expression"], data):
            yield str(_value(each["messageExpression"], data) if "messageExpression" in each else each["message"])


def _value(expression: str, data: dict[str, Any]) -> Any:
    return _compiled(expression).eval(data=data).plain_value()


@cache
def _compiled(expression: str) -> cel.Expression:
    return _environment().compile(expression)


@cache
def _environment() -> cel.Env:
    return cel.NewEnv(
        variables=dict.fromkeys(_NAMES, cel.Type.DYN),
        extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings()],
        functions=KUBERNETES_FUNCTIONS,
    )


def _declare_function(name: str, overload: cel.Overload) -> cel.FunctionDecl:
    return cel.FunctionDecl(name, [overload])


def _check_quantity(text: str) -> str:
    # A quantity stays a string, because CEL has no type for exact fractions. parse_quantity() raises ValueError if the
    # string is not a quantity.
    parse_quantity(text)
    return text


def _compare_quantities(one: str, other: str) -> int:
    first, second = parse_quantity(one), parse_quantity(other)
    return (first > second) - (first < second)


def _is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


_TEXT = cel.Type.STRING
KUBERNETES_FUNCTIONS = [
    _declare_function("quantity", cel.Overload("quantity", _TEXT, [_TEXT], impl=_check_quantity)),
    _declare_function(
        "compareTo", cel.Overload("compare", cel.Type.INT, [_TEXT, _TEXT], is_member=True, impl=_compare_quantities)
    ),
    _declare_function("isCIDR", cel.Overload("is_cidr", cel.Type.BOOL, [_TEXT], impl=_is_cidr)),
]
"""The functions of Kubernetes' own CEL libraries that the rules call."""
