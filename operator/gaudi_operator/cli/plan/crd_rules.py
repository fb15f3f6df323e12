"""Evaluation of the CEL rules in the GaudiInference schema, as in the API server when an object is created.

`make generate` writes the rules into crds/. cel-expr-python, the runtime of the CEL project, evaluates the rules with
its extensions for optional values, bindings and strings. This module defines those functions of the Kubernetes CEL
libraries that the rules call. If a rule calls another Kubernetes function, the rule does not compile, and a test in
tests/unit/operator/cli/plan fails.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

from gaudi_operator.api.schema import Schema, leading_field_path
from gaudi_operator.cli.plan.schema_values import prevents_rule_evaluation
from gaudi_operator.core.quantities import parse_quantity

_SELF, _OLD_SELF = "self", "oldSelf"


def broken_rules(schema: Schema, name: str, spec: object) -> tuple[str, ...]:
    """Return the messages of the CRD's rules that a new object violates, each with the path of the field.

    `schema` is the schema of the whole object. The result is empty if an invalid value prevents the evaluation.
    """
    if prevents_rule_evaluation(schema, {"spec": spec}):
        return ()
    value = _to_cel_value(schema, {"metadata": {"name": name}, "spec": spec})
    return tuple(dict.fromkeys(_broken_rule_messages(schema, value, "")))


def _to_cel_value(node: Schema, value: Any) -> Any:
    """Return a value in the form that CEL rules expect: with defaults, without nulls, and with escaped field names."""
    if not node:
        # The schema does not contain this field. Do not recurse into its value, which may be nested too deeply.
        return value
    if isinstance(value, float) and node.get("type") == "integer":
        return int(value)
    if isinstance(value, list):
        return [_to_cel_value(node.get("items", {}), entry) for entry in value]
    if not isinstance(value, Mapping):
        return value
    fields, additional_schema = node.get("properties", {}), node.get("additionalProperties", {})
    defaults = {name: field["default"] for name, field in fields.items() if "default" in field}
    set_fields = {name: field_value for name, field_value in value.items() if field_value is not None}
    return {
        _escape_name(name) if name in fields else name: _to_cel_value(fields.get(name, additional_schema), field_value)
        for name, field_value in (defaults | set_fields).items()
    }


def _escape_name(name: str) -> str:
    """Return the name of a field as a CEL identifier. Only hyphens need to be escaped."""
    return name.replace("-", "__dash__")


def _broken_rule_messages(node: Schema, value: Any, path: str) -> Iterator[str]:
    for rule in node.get("x-kubernetes-validations", ()):
        optional = rule.get("optionalOldSelf", False)
        # A transition rule compares the object with its old version. Skip transition rules without `optionalOldSelf`,
        # because they apply only to updates.
        if (optional or not _is_transition(rule["rule"])) and not _holds(rule["rule"], optional, value):
            yield _message_with_path(path, rule["message"])
    if isinstance(value, list):
        for number, entry in enumerate(value):
            yield from _broken_rule_messages(node.get("items", {}), entry, f"{path}[{number}]")
    elif isinstance(value, dict):
        for name, field in node.get("properties", {}).items():
            if _escape_name(name) in value:
                yield from _broken_rule_messages(field, value[_escape_name(name)], f"{path}.{name}".lstrip("."))


def _is_transition(rule: str) -> bool:
    return re.search(rf"\b{_OLD_SELF}\b", rule) is not None


def _message_with_path(path: str, message: str) -> str:
    """Return a rule's message with the path of its field, unless the message already names a field."""
    return message if leading_field_path(message) or not path else f"{path}: {message}"


def _holds(rule: str, optional: bool, value: Any) -> bool:
    """Return True if a rule holds. A failed evaluation gives False, because the API server then refuses the object."""
    return bool(compile_rule(rule, optional).eval(data={_SELF: value}).plain_value() is True)


@cache
def compile_rule(rule: str, optional: bool) -> cel.Expression:
    """Compile a CEL rule of the CRD. With `optional`, `oldSelf` is empty, because a new object has no old version."""
    return _cel_environment().compile(f"cel.bind({_OLD_SELF}, optional.none(), {rule})" if optional else rule)


@cache
def _cel_environment() -> cel.Env:
    return cel.NewEnv(
        # The variables do not have the types of the schema. Therefore CEL finds a misspelled field only when the rule
        # is evaluated.
        variables={_SELF: cel.Type.DYN, _OLD_SELF: cel.Type.DYN},
        extensions=[ext_bindings.ExtBindings(), ext_optional.ExtOptional(), ext_strings.ExtStrings()],
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
