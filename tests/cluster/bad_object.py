"""One object that the API server must refuse, with what it says: these sentences are part of the product.

An entry lays `spec` over a valid object (tests/builders.py): None removes a field.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.builders import Object, gaudi_inference


@dataclass(frozen=True)
class Bad:
    """One bad object: `case` names the test, `sentence` is part of the refusal."""

    case: str
    sentence: str
    spec: dict[str, Any] = field(default_factory=dict)
    name: str = "bad"

    def manifest(self) -> Object:
        """The object."""
        return gaudi_inference(self.name, **self.spec)


CARD = {"generation": "gaudi3", "deviceMemory": None}
VLLM = {"name": "vllm"}
