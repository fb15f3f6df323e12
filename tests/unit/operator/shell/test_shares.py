"""The log lines about objects that the store does not keep."""

import logging

import pytest

from gaudi_operator.shell.kinds import CONFIG_MAP, CONTROLLER_REVISION, POD, SERVICE
from gaudi_operator.shell.watching.incoming import kept
from gaudi_operator.shell.watching.shares import OBJECT_BYTES, PODS_BYTES, SHARE_BYTES, Shares
from gaudi_operator.shell.watching.store import Key, Store
from tests.unit.operator.shell.test_incoming import owner, some
from tests.unit.operator.shell.test_store import manifest, store_of

KEY = Key("ns", "tiny")


def ignored(share: str, kind: str) -> str:
    return (
        f"Objects with the label of GaudiInference {KEY} take more than {share} MiB. A {kind} is ignored: delete "
        "objects with that label that the operator did not make."
    )


def test_full_share_is_logged_once_until_it_is_empty(caplog: pytest.LogCaptureFixture) -> None:
    shares = Shares()
    assert shares.take(KEY, SERVICE, "a", SHARE_BYTES)
    assert not shares.take(KEY, SERVICE, "b", 1)
    assert not shares.take(KEY, CONFIG_MAP, "c", 1)
    assert caplog.messages == [ignored("16", "Service")]
    shares.give_back(SERVICE, "a")
    assert shares.take(KEY, SERVICE, "a", SHARE_BYTES)
    assert not shares.take(KEY, CONFIG_MAP, "b", 1)
    assert caplog.messages[1:] == [ignored("16", "ConfigMap")]


def test_pods_have_a_share_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    shares = Shares()
    assert shares.take(KEY, POD, "a", PODS_BYTES)
    assert shares.take(KEY, SERVICE, "b", SHARE_BYTES)
    assert not shares.take(KEY, POD, "c", 1)
    assert caplog.messages == [ignored("64", "Pod")]


def test_object_that_is_too_large_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    kept(CONTROLLER_REVISION, some(CONTROLLER_REVISION, owner(), data={"a": "x" * OBJECT_BYTES}))
    assert caplog.messages == [
        "ControllerRevision a is larger than any that the operator writes: its content is ignored."
    ]


def test_object_that_vanished_unseen_is_logged_with_its_resource(caplog: pytest.LogCaptureFixture) -> None:
    store = store_of(manifest(SERVICE, "s", 1, "r"))
    with caplog.at_level(logging.INFO):
        store.end_list(SERVICE, None, (), 10)
    (record,) = caplog.records
    assert record.message == f"Service {KEY} vanished unseen"
    assert record.resource == "ns/tiny"  # type: ignore[attr-defined]


def test_deletions_of_ten_thousand_objects_are_remembered() -> None:
    store = Store()
    for number in range(10_001):
        store.remove(manifest(SERVICE, str(number), 2, "r"))
    assert store.put(manifest(SERVICE, "1", 1, "r")) is None
    assert store.put(manifest(SERVICE, "0", 1, "r")) == KEY
