"""Objects with the operator's label and the deepest JSON that the API server accepts."""

import json
import sys
import threading

from gaudi_operator.core.decide import decide
from gaudi_operator.replica import DEEPEST
from gaudi_operator.shell.watching.store import Store
from tests.support.builders import Object
from tests.unit.operator.core.resources import DEFAULTS
from tests.unit.operator.core.stories import served
from tests.unit.operator.hostile.limited import run
from tests.unit.operator.hostile.stored import strange_revision

LEVELS = 9_990
DATA = {
    "lists": "[" * LEVELS + "]" * LEVELS,
    "objects": '{"inputs":' * LEVELS + "1" + "}" * LEVELS,
    "template": '{"inputs":{},"config":"","template":' + '{"a":' * LEVELS + "1" + "}" * (LEVELS + 1),
}


def test_deeply_nested_object_does_not_stop_watch_or_reconcile() -> None:
    ended = run(_see_deep_objects)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.split() == list(DATA)


def _see_deep_objects() -> None:
    sys.setrecursionlimit(DEEPEST)
    # The operator makes decisions in a separate thread, which has a smaller stack than the main thread. So use a thread
    # here, too.
    thread = threading.Thread(target=_see_each)
    thread.start()
    thread.join()


def _see_each() -> None:
    cluster = served(replicas=1)
    for name, text in DATA.items():
        strange: Object = strange_revision("stands for data", 7)
        whole = json.dumps(strange).replace('"stands for data"', text)
        seen = json.loads(whole)
        seen["metadata"] |= {"resourceVersion": "7", "namespace": "models"}
        store = Store()
        store.put(seen)
        observed = cluster.observed()
        decision = decide(type(observed)(**{**vars(observed), "revisions": (*observed.revisions, seen)}), DEFAULTS)
        json.dumps(decision.status.model_dump(mode="json"))
        sys.stdout.write(f"{name}\n")
