"""The arithmetic of the laws, against numbers from docs/how-to/revisions.md."""

import pytest

from tests.laws.promise import Promise, promise


@pytest.mark.parametrize(
    ("rollout", "expected"),
    [
        ({}, Promise(4, 5, False)),
        ({"maxSurge": "30%", "maxUnavailable": "30%"}, Promise(3, 6, False)),
        ({"mode": "InPlace", "maxUnavailable": 1}, Promise(3, 4, True)),
        ({"maxSurge": 0, "maxUnavailable": "10%"}, Promise(3, 4, True)),
        ({"maxSurge": 1, "maxUnavailable": 9}, Promise(0, 5, False)),
    ],
)
def test_promise_of_four_replicas(rollout: dict[str, object], expected: Promise) -> None:
    assert promise({"replicas": 4, "rollout": rollout}) == expected
