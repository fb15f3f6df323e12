"""ConfigMaps that a spec references are not watched. Reconciles read them, at least every five minutes."""

from gaudi_operator.core.actions import Decision
from gaudi_operator.core.observed import Observed
from gaudi_operator.shell.kinds import CONFIG_MAP
from tests.unit.operator.shell.memory import manifest
from tests.unit.operator.shell.reconciled import Operator

FILE = {"fileFrom": {"configMapKeyRef": {"name": "buckets", "key": "plan"}}}


def write_text(operator: Operator, text: str) -> None:
    """Create or change the ConfigMap with the bucket file. The operator does not observe the write."""
    operator.memory.exists(manifest(CONFIG_MAP, "buckets", data={"plan": text}), seen=False)


def texts_read(operator: Operator) -> list[str]:
    """Return a list that collects the texts of all later decisions. The spec references the ConfigMap."""
    texts: list[str] = []

    def decide(observed: Observed) -> Decision:
        texts.extend(observed.texts.values())
        return Decision((), operator.status)

    operator.decide = decide
    operator.resource["spec"]["bucketing"] = FILE
    operator.observe_objects(operator.memory.exists(operator.resource, seen=False))
    return texts


def test_referenced_text_is_read_again_after_five_minutes(operator: Operator) -> None:
    write_text(operator, "(1, 128, 0)")
    texts = texts_read(operator)
    write_text(operator, "(1, 256, 0)")
    operator.pass_time(299)
    assert set(texts) == {"(1, 128, 0)"}
    operator.pass_time(2)
    assert texts[-1] == "(1, 256, 0)"


def test_spec_without_references_is_not_reconciled_again(operator: Operator) -> None:
    operator.observe_objects(operator.resource)
    decided = len(operator.decided)
    operator.pass_time(3600)
    assert len(operator.decided) == decided
