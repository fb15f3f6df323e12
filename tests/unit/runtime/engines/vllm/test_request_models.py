"""The number of errors that a request model reports if the model is defined like those of vLLM."""

import subprocess
import sys

COUNT = """
from pydantic import BaseModel, ValidationError
from gaudi_runtime.engines.vllm.vllm_imports import stop_at_first_error

stop_at_first_error()
stop_at_first_error()

class Item(BaseModel):
    role: str
    tokens: list[int] | list[str] | None = None

class Request(BaseModel):
    items: list[Item | int | dict[str, float]] = []
    options: dict[str, int] = {}
    names: set[int] = set()

for wrong in ({"items": [None] * 9}, {"items": [{"role": "a", "tokens": [None] * 9}]},
              {"options": dict.fromkeys("abcdefgh")}, {"names": "abcdefgh".split()}):
    try:
        Request.model_validate(wrong)
    except ValidationError as error:
        print(error.error_count())
print(Request.model_validate({"items": [{"role": "a", "tokens": ["b"]}, 1, {"a": 1}], "options": {"a": 1}}).items)
"""


def test_validation_stops_at_the_first_invalid_item_of_a_container() -> None:
    run = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
    *counts, taken = run.stdout.splitlines()
    assert [int(count) for count in counts] == [3, 4, 1, 1]
    assert taken == "[Item(role='a', tokens=['b']), 1, {'a': 1.0}]"
