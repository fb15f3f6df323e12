"""The chart's policy for the operator's account has the same lists as the operator's check of stored pod templates."""

import re
from typing import Any

import pytest

from gaudi_operator.core.admission import pod_fields
from tests.unit.chart.rendering import of_kind, render

pytestmark = pytest.mark.timeout(1200)  # the first run builds Helm


def account_policy(**values: Any) -> dict[str, Any]:
    """Return the spec of the policy for the operator's account, from a release with `values`."""
    policies = of_kind(render(**values), "ValidatingAdmissionPolicy")
    (found,) = (each["spec"] for each in policies if each["metadata"]["name"].endswith("-account"))
    return dict(found)


def folders(**values: Any) -> str:
    (found,) = (each for each in account_policy(**values)["variables"] if each["name"] == "folders")
    return str(found["expression"]).partition("].filter(")[0]


def test_field_lists_equal_those_of_the_operator() -> None:
    policy = account_policy()
    expressions = [each["expression"] for each in (*policy["variables"], *policy["validations"])]
    lists = re.findall(r"field in \[([^]]*)\]", " ".join(expressions))
    assert sorted(sorted(re.findall(r"'(\w+)'", each)) for each in lists) == sorted(
        sorted(getattr(pod_fields, name)) for name in dir(pod_fields) if name.endswith("_FIELDS")
    )


def test_no_folder_is_allowed_by_default() -> None:
    assert folders(allowHostPath=[]).split() == ["["]


def test_allowed_host_paths_are_normalized_with_a_trailing_slash() -> None:
    entries = [{"prefix": "/models/./a//", "namespaces": ["team"], "groups": [3000]}, {"prefix": "/"}]
    assert re.findall(
        r"'prefix': dyn\((.*?)\), 'namespaces': dyn\((.*?)\), 'groups': dyn\((.*?)\)", folders(allowHostPath=entries)
    ) == [
        ('"/models/a/"', '["team"]', "[3000]"),
        ('"/"', "[]", "[]"),
    ]
