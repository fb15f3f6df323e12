"""Differences between a stored child and its desired content, and whether each difference counts as drift."""

from typing import Any

import pytest

from gaudi_operator.core.children.drift import drifted_field


def target(value: str) -> Any:
    """Return an autoscaler with this target."""
    return {"spec": {"metrics": [{"pods": {"target": {"averageValue": value}}}]}}


TWICE = [{"name": "v", "mountPath": "/a", "subPath": "a"}, {"name": "v", "mountPath": "/b", "subPath": "b"}]
TERMS = [{"topologyKey": "zone", "weight": 1}, {"topologyKey": "zone", "weight": 2}]
CASES: dict[str, tuple[Any, Any, str | None]] = {
    "equal_objects": ({"a": {"b": 1}}, {"a": {"b": 1}}, None),
    "changed_value": ({"spec": {"replicas": 2}}, {"spec": {"replicas": 3}}, "spec.replicas"),
    "missing_field": ({"spec": {"replicas": 2}}, {"spec": {}}, "spec.replicas"),
    "missing_object": ({"spec": {"a": {"b": 1}}}, {"spec": {}}, "spec.a"),
    "foreign_field": ({"a": 1}, {"a": 1, "b": 2}, None),
    "foreign_entry_of_a_named_list": ([{"name": "a", "v": 1}], [{"name": "x"}, {"name": "a", "v": 1, "w": 2}], None),
    "changed_entry_of_a_named_list": ([{"name": "a", "v": 1}], [{"name": "a", "v": 2}], "a.v"),
    "missing_entry_of_a_named_list": ([{"name": "a"}], [{"name": "b"}], "a"),
    "mounts_go_by_their_path": ([{"mountPath": "/a", "readOnly": True}], [{"mountPath": "/a"}], "/a.readOnly"),
    "value_in_place_of_an_object": ({"spec": {"a": {"b": 1}}}, {"spec": {"a": 1}}, "spec.a"),
    "foreign_key_of_a_selector": (
        {"spec": {"selector": {"a": "b"}}},
        {"spec": {"selector": {"a": "b", "c": "d"}}},
        "spec.selector",
    ),
    "foreign_key_of_a_node_selector": (
        {"spec": {"nodeSelector": {"a": "b"}}},
        {"spec": {"nodeSelector": {"a": "b", "c": "d"}}},
        "spec.nodeSelector",
    ),
    "missing_list": ({"spec": {"args": ["serve"]}}, {"spec": {}}, "spec.args"),
    "foreign_entry_of_an_empty_list": ({"args": []}, {"args": ["--debug"]}, "args"),
    "value_in_place_of_an_empty_list": ({"args": []}, {"args": "serve"}, "args"),
    "longer_plain_list": ({"spec": {"args": ["serve"]}}, {"spec": {"args": ["serve", "--debug"]}}, "spec.args"),
    "volume_mounted_twice": (TWICE, TWICE, None),
    "changed_mount_of_a_volume_mounted_twice": (TWICE, [{**TWICE[0], "subPath": "c"}, TWICE[1]], "/a.subPath"),
    "two_terms_for_one_place": (TERMS, TERMS, None),
    "changed_term_of_two_for_one_place": (TERMS, [TERMS[0], {**TERMS[1], "weight": 3}], "1.weight"),
    "longer_list_without_names": ({"peers": [{"a": 1}]}, {"peers": [{"a": 1}, {"b": 2}]}, "peers"),
    "changed_list_without_names": ({"peers": [{"a": 1}]}, {"peers": [{"a": 2}]}, "peers.0.a"),
    "changed_plain_list": ({"args": ["serve"]}, {"args": ["sleep"]}, "args"),
    "list_that_became_a_value": ({"args": ["serve"]}, {"args": "serve"}, "args"),
    "empty_object_that_the_server_drops": ({"a": {}}, {}, None),
    "empty_list_that_the_server_drops": ({"a": []}, {}, None),
    "empty_text_that_the_server_drops": ({"env": [{"name": "A", "value": ""}]}, {"env": [{"name": "A"}]}, None),
    "false_is_a_choice": ({"automount": False}, {}, "automount"),
    "zero_is_a_choice": ({"replicas": 0}, {}, "replicas"),
    "false_in_a_block_may_be_dropped": (
        {"volumes": [{"name": "a", "readOnly": False}]},
        {"volumes": [{"name": "a"}]},
        None,
    ),
    "zero_in_a_block_may_be_dropped": ({"metrics": [{"value": 0}]}, {"metrics": [{}]}, None),
    "right_in_a_block_is_a_choice": (
        {"initContainers": [{"name": "a", "securityContext": {"privileged": False}}]},
        {"initContainers": [{"name": "a", "securityContext": {}}]},
        "initContainers.a.securityContext.privileged",
    ),
    "default_of_an_empty_text": ({"env": {"apiVersion": ""}}, {"env": {"apiVersion": "v1"}}, None),
    "null_that_the_server_drops": ({"a": None}, {}, None),
    "name_of_a_wrong_type": ({"volumes": [{"name": ["a"]}]}, {"volumes": [{"name": "a"}]}, "volumes.['a']"),
    "number_as_a_quantity": ({"limits": {"cpu": 2}}, {"limits": {"cpu": "2"}}, None),
    "quantity_that_the_server_rounds": ({"limits": {"cpu": ".0000000001"}}, {"limits": {"cpu": "1n"}}, None),
    "divisor_in_other_words": ({"env": {"divisor": "1000m"}}, {"env": {"divisor": "1"}}, None),
    "quantity_in_other_words": ({"limits": {"memory": "1024Mi"}}, {"limits": {"memory": "1Gi"}}, None),
    "target_in_other_words": (target("2000"), target("2k"), None),
    "target_that_the_server_caps": (target("99E"), target("9223372036854775807"), None),
    "another_target": (target("2000"), target("3k"), "spec.metrics.0.pods.target.averageValue"),
    "variable_that_looks_like_a_target": ({"env": {"value": "2000"}}, {"env": {"value": "2k"}}, "env.value"),
    "another_quantity": ({"limits": {"memory": "1Gi"}}, {"limits": {"memory": "2Gi"}}, "limits.memory"),
    "missing_quantity": ({"limits": {"memory": "1Gi"}}, {"limits": {}}, "limits.memory"),
    "text_that_is_no_quantity": ({"limits": {"memory": "much"}}, {"limits": {"memory": "more"}}, "limits.memory"),
    "label_that_looks_like_a_quantity": ({"labels": {"v": "1024Mi"}}, {"labels": {"v": "1Gi"}}, "labels.v"),
}


@pytest.mark.parametrize("case", CASES)
def test_drifted_field_is_found(case: str) -> None:
    applied, live, path = CASES[case]
    assert drifted_field(applied, live) == path
