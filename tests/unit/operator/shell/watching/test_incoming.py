"""Incoming objects from the API server: foreign and oversized objects are reduced to their names."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_operator.core.names import NAME_LABEL
from gaudi_operator.shell.kinds import CONFIG_MAP, CONTROLLER_REVISION, POD, PVC, REPLICA_SET, RESOURCE, Kind
from gaudi_operator.shell.watching.incoming import IncomingListReader, reduce_incoming_object
from gaudi_operator.shell.watching.memory_shares import OBJECT_BYTES, memory_weight
from tests.support.builders import Object


def owner(kind: str = "GaudiInference", version: str = "inference.gaudi.dev/v1alpha1", **fields: Any) -> Object:
    """Return an owner reference to a controller, by default a GaudiInference."""
    return {"apiVersion": version, "kind": kind, "name": "tiny", "uid": "u", "controller": True, **fields}


def some(kind: Kind, *owners: Object, **fields: Any) -> Object:
    """Return an object with the operator's label."""
    metadata = {
        "name": "a",
        "namespace": "models",
        "uid": "1",
        "resourceVersion": "7",
        "labels": {NAME_LABEL: "tiny"},
        "ownerReferences": list(owners),
    }
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}


def is_kept_whole(kind: Kind, manifest: Object) -> bool:
    """Return True if the object is kept completely. Otherwise check that only its name is kept, and return False."""
    found = reduce_incoming_object(kind, manifest)
    if found is manifest:
        return True
    names = {"name": "a", "namespace": "models", "uid": "1", "resourceVersion": "7"}
    assert found == {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": names}
    return False


@pytest.mark.parametrize(
    ("kind", "owners", "expected"),
    [
        (CONTROLLER_REVISION, [owner()], True),
        (CONTROLLER_REVISION, [], False),
        (CONTROLLER_REVISION, [owner(controller=False)], False),
        (CONTROLLER_REVISION, [owner("StatefulSet", "apps/v1")], False),
        (CONTROLLER_REVISION, [owner("GaudiInferenceClass")], False),
        (CONTROLLER_REVISION, [owner("GaudiInferencf")], False),
        (REPLICA_SET, [owner(version="inference.gaudi.dev.evil/v1")], False),
        (POD, [owner("ReplicaSetGroup", "example.com/v1")], False),
        (POD, [owner("ReplicaSet", "apps/v1")], True),
        (POD, [owner("StatefulSet", "apps/v1")], True),
        (POD, [], False),
        (PVC, [], True),
        (PVC, [owner("Backup", "example.com/v1")], False),
        (RESOURCE, [], True),
    ],
)
def test_foreign_object_is_reduced_to_its_name(kind: Kind, owners: list[Object], expected: bool) -> None:
    assert is_kept_whole(kind, some(kind, *owners)) is expected


@pytest.mark.parametrize("data", [{"a": "x" * OBJECT_BYTES}, {"a": [{"b": [[]] * (OBJECT_BYTES // 8)}]}])
def test_oversized_object_is_reduced_to_its_name(data: Object) -> None:
    assert not is_kept_whole(CONTROLLER_REVISION, some(CONTROLLER_REVISION, owner(), data=data))
    assert is_kept_whole(CONTROLLER_REVISION, some(CONTROLLER_REVISION, owner(), data={"a": "x" * (OBJECT_BYTES // 2)}))
    # The operator stores only hashes of a ConfigMap's data, and the schema limits the size of a resource. So objects of
    # these two kinds are kept.
    assert is_kept_whole(CONFIG_MAP, some(CONFIG_MAP, owner(), data=data))
    assert is_kept_whole(RESOURCE, some(RESOURCE, spec=data))


def test_object_of_the_maximum_weight_is_kept() -> None:
    def padded(size: int) -> Object:
        return some(CONTROLLER_REVISION, owner(), data={"a": "x" * size})

    largest = OBJECT_BYTES - memory_weight(padded(0))
    assert is_kept_whole(CONTROLLER_REVISION, padded(largest))
    assert not is_kept_whole(CONTROLLER_REVISION, padded(largest + 1))


async def pieces(content: bytes, size: int) -> AsyncIterator[bytes]:
    """Yield the content in pieces of `size`."""
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def read(content: bytes, size: int) -> Any:
    """Return the list that IncomingListReader reads from `content` in pieces of `size` bytes."""
    return await IncomingListReader(pieces(content, size), lambda each: each).read()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(
    st.lists(JSON, max_size=6),
    st.dictionaries(st.sampled_from(["metadata", "kind", "a,}"]), JSON),
    st.integers(1, 40),
    st.booleans(),
    st.sampled_from([None, 1]),
)
async def test_streamed_list_equals_the_completely_parsed_one(
    items: list[Any], fields: Object, size: int, first: bool, indent: int | None
) -> None:
    whole = {"items": items, **fields} if first else {**fields, "items": items}
    assert await read(json.dumps(whole, indent=indent, ensure_ascii=first).encode(), size) == whole


@pytest.mark.parametrize("size", [1, 5, 1000])
async def test_objects_of_a_list_are_read_one_by_one(size: int) -> None:
    taken: list[Any] = []
    reader = IncomingListReader(
        pieces(b' {"kind" :"L" , "items":[ {"a":[1,2]} ,{}, 12 ] ,"metadata":{"b": 1}}', size), taken.append
    )
    assert await reader.read() == {"kind": "L", "items": [None, None, None], "metadata": {"b": 1}}
    assert taken == [{"a": [1, 2]}, {}, 12]


async def test_object_is_stored_before_the_next_one_is_read() -> None:
    each = json.dumps({"a": "x" * 100})
    content, came, ahead = f'{{"items": [{", ".join([each] * 50)}]}}', 0, list[int]()

    async def one_by_one() -> AsyncIterator[bytes]:
        nonlocal came
        async for piece in pieces(content.encode(), 1):
            came += 1
            yield piece

    def take(_: Object) -> None:
        end = content.index("{", 1) + len(ahead) * len(f"{each}, ") + len(each)
        ahead.append(came - end)

    await IncomingListReader(one_by_one(), take).read()
    assert 0 < max(ahead) < len(each)


@pytest.mark.parametrize("name", ["item", "itemz", "itemsOfOthers"])
async def test_only_items_of_a_list_are_stored(name: str) -> None:
    taken: list[Any] = []
    await IncomingListReader(pieces(json.dumps({name: [1], "items": [2]}).encode(), 1000), taken.append).read()
    assert taken == [2]


@pytest.mark.parametrize(
    ("text", "message"),
    [('{"items": [', "the list is incomplete"), ('{"items" 1}', ": is missing in the list")],
)
async def test_syntax_error_of_a_list_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        await read(text.encode(), 3)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"items": [',
        '{"items": [{]}',
        '{"items" 1}',
        "\xff",
        '["items": []}',
        '{"items"=[]}',
    ],
)
async def test_other_json_than_a_list_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        await read(text.encode("latin-1"), 3)


async def test_list_without_items_is_read() -> None:
    assert await read(b'{"items": null}', 2) == {"items": None}
