"""The arithmetic of the laws, compared with numbers from docs/how-to/revisions.md."""

import pytest

from tests.laws.promise import Promise, promise


@pytest.mark.parametrize(
    ("rollout", "expected"),
    [
        ({}, Promise(4, 5, False, 3)),
        ({"maxSurge": "30%", "maxUnavailable": "30%"}, Promise(3, 6, False, 3)),
        ({"type": "Surge"}, Promise(4, 5, False, None)),
        ({"maxUnavailable": 0}, Promise(4, 5, False, None)),
        ({"maxUnavailable": "10%"}, Promise(4, 5, False, None)),
        ({"type": "InPlace"}, Promise(3, 4, True, 3)),
        ({"type": "InPlace", "maxUnavailable": "10%"}, Promise(3, 4, True, 3)),
        ({"maxSurge": 1, "maxUnavailable": 9}, Promise(0, 5, False, 0)),
    ],
)
def test_pod_limits_of_four_replicas_follow_the_rollout_fields(rollout: dict[str, object], expected: Promise) -> None:
    assert promise({"replicas": 4, "rollout": rollout}) == expected


@pytest.mark.parametrize(("rollout", "floor"), [({}, None), ({"maxUnavailable": 1}, 0), ({"type": "InPlace"}, 0)])
def test_single_replica_may_be_removed_only_if_configured(rollout: dict[str, object], floor: int | None) -> None:
    assert promise({"replicas": 1, "rollout": rollout}).without_room == floor
