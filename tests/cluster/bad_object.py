"""One object that the API server must refuse, with what tells the refusal: the field, and words of its rule.

What a rule of ours says, the models in operator/gaudi_operator/api and the generated crds/ hold; a test that quoted it
would have to change with it.
An entry lays `spec` over a valid object (tests/support/builders.py): None removes a field.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.support.builders import Object, gaudi_inference


@dataclass(frozen=True)
class Bad:
    """One bad object: `case` names the test, `words` are part of the refusal."""

    case: str
    words: str
    spec: dict[str, Any] = field(default_factory=dict)
    name: str = "bad"

    def manifest(self) -> Object:
        """The object."""
        return gaudi_inference(self.name, **self.spec)


CARD = {"generation": "gaudi3", "deviceMemory": None}
VLLM = {"name": "vllm"}
NOT_OFFERED = "is not offered by the torch engine"
