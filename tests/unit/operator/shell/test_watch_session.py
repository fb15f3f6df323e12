"""Watches that nobody renews are noticed; lists tell what they hold."""

import time

from gaudi_operator.shell.kinds import POD, RESOURCE
from gaudi_operator.shell.metrics import Metrics
from gaudi_operator.shell.watch_session import WatchSession, collection_of


def session() -> WatchSession:
    return WatchSession(Metrics(), lambda *_: None)


def test_before_the_first_watch_nothing_is_idle() -> None:
    assert session().idle_seconds() == 0


def test_the_longest_silence_counts() -> None:
    watching = session()
    now = time.monotonic()
    watching.tried |= {POD: now - 1000, RESOURCE: now}
    assert 1000 <= watching.idle_seconds() < 1010


def test_collection_of_all_namespaces_is_known() -> None:
    assert collection_of("/api/v1/pods") == (POD, None)


def test_collection_of_one_namespace_is_known() -> None:
    path = "/apis/inference.gaudi.dev/v1alpha1/namespaces/blue/gaudiinferences"
    assert collection_of(path) == (RESOURCE, "blue")


def test_anything_else_is_no_collection() -> None:
    assert collection_of("/apis/apps/v1") is None
    assert collection_of("/api/v1/namespaces/blue/pods/one") is None
