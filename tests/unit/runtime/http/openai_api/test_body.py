"""What the JSON of a request may hold before an application validates it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.http.openai_api import body as bodies
from gaudi_runtime.http.openai_api.body import MOST_VALUES, check_body
from gaudi_runtime.http.openai_api.errors import InvalidRequest
from tests.unit.runtime.http.openai_api.test_guard import GENERATING, House, theirs

MANY = MOST_VALUES + 1
JSON = st.recursive(
    st.none() | st.integers(-2, 2**33) | st.text(alphabet='ab,[{"\\é', max_size=9),
    lambda inside: st.lists(inside) | st.dictionaries(st.sampled_from(["prompt", "input", "a", 'b",[']), inside),
    max_leaves=40,
)


def refused(document: Any) -> bool:
    try:
        check_body(document if isinstance(document, bytes) else json.dumps(document).encode())
    except InvalidRequest:
        return True
    return False


@pytest.mark.parametrize(
    "document",
    [
        {"prompt": [7] * MANY},
        {"prompt": [[7] * MANY, [8] * MANY]},
        {"input": [7] * MANY},
        {"tokens": [7] * MANY},
        {"messages": [{"role": "user", "content": '[{"a": [1, 2]}],' * MANY}]},
        {"messages": [{"role": "user", "content": '\\"[' * MANY}]},
        b'{"prompt": [' + b"1," * MANY,
        b"[" * MOST_VALUES,
    ],
)
def test_long_prompts_pass_and_so_does_what_is_no_json(document: Any) -> None:
    assert not refused(document)


@pytest.mark.parametrize(
    "document",
    [
        {"messages": [[]] * MANY},
        {"messages": [""] * MANY},
        {"messages": [7] * MANY},
        {"messages": [{"prompt": [7] * MANY}]},
        {"prompt": [[]] * MANY},
        {"prompt": [""] * MANY},
        {"prompt": [-1] * MANY},
        {"prompt": [2**32] * MANY},
        {"prompt": [True] * MANY},
        {"prompt": {"prompt": [7] * MANY}},
        {"messages": [{"content": [{}] * 150} for _ in range(150)]},
        [7] * MANY,
        {f"{number}": 0 for number in range(MANY)},
        b"[" * MANY,
        json.dumps({"prompt": "a"}).encode("utf-16"),
    ],
)
def test_many_values_elsewhere_are_refused(document: Any) -> None:
    assert refused(document)


def test_sentence_names_the_bound_and_what_does_not_count() -> None:
    with pytest.raises(InvalidRequest) as error:
        check_body(b"[" * MANY)
    assert error.value.message == (
        "The body has more than 20000 values besides token ids (in input, prompt, tokens); "
        "send fewer or smaller requests."
    )


@given(JSON)
def test_no_document_of_more_values_than_allowed_passes(document: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bodies, "MOST_VALUES", 5)
        if not refused(document):
            assert values(document) <= 6


def values(document: Any, name: str | None = None, depth: int = 0) -> int:
    """Of a document, itself included; token ids of the fields at its top as none."""
    if isinstance(document, dict):
        return 1 + sum(values(each, key if depth == 0 else None, depth + 1) for key, each in document.items())
    if not isinstance(document, list):
        return 1
    ids = all(type(each) is int and 0 <= each < 2**32 for each in document)
    if name in ("prompt", "input", "tokens") and ids:
        return 1
    return 1 + sum(values(each, name, depth + 1) for each in document)


def test_a_body_of_open_strings_is_read_once() -> None:
    # Looked at from each quote to the end, 4 MB of them are 8 * 10**12 steps.
    assert refused(b"[" * MANY + b'\\"' * 2**21)


async def test_refused_body_does_not_reach_the_application() -> None:
    answer = await House(theirs).client.post(GENERATING, json={"messages": [[]] * MANY})
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


async def test_a_form_with_a_file_is_not_looked_at() -> None:
    answer = await House(theirs).client.post(GENERATING, files={"file": b"\0," * MANY})
    assert answer.text == "theirs"
