"""An object that the API server must refuse, with the parts of the message that identify the refusal.

An entry contains only parts of a message. Otherwise the tests would have to change with each edit of a message. The
full messages are in operator/gaudi_operator/api and the generated crds/. An entry merges `spec` into a valid object
(tests/support/builders.py). The value None removes a field.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.support.builders import Object, gaudi_inference


@dataclass(frozen=True)
class Bad:
    """A bad object. `case` names the test, and `message` and `path` are parts of the refusal.

    Use `path` for rules whose message does not contain the name of the field.
    """

    case: str
    message: str
    spec: dict[str, Any] = field(default_factory=dict)
    name: str = "bad"
    path: str = ""

    def manifest(self) -> Object:
        """Return the object."""
        return gaudi_inference(self.name, **self.spec)


CARD = {"generation": "gaudi3", "deviceMemory": None}
VLLM = {"name": "vllm"}
