"""Limits on the body of a request: its size, its content type, and the number of values in its JSON."""

import json
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest
from httpx import Response
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.http.openai_api import body as bodies
from gaudi_runtime.http.openai_api import paths
from gaudi_runtime.http.openai_api.body import MOST_ITEMS, MOST_VALUES, RESPONSES, check_body
from gaudi_runtime.http.openai_api.errors import InvalidRequest
from tests.unit.runtime.http.openai_api.test_guard import GENERATING, GuardedApp, healthy_app
from tests.unit.runtime.serving import Served

MANY = MOST_VALUES + 1
JSON = st.recursive(
    st.none() | st.integers(-2, 2**33) | st.text(alphabet='ab,[{"\\é', max_size=9),
    lambda inside: st.lists(inside) | st.dictionaries(st.sampled_from(["prompt", "input", "a", 'b",[']), inside),
    max_leaves=40,
)


def refusal_of(document: Any, path: str = GENERATING) -> bool:
    try:
        check_body(path, document if isinstance(document, bytes) else json.dumps(document).encode())
    except InvalidRequest:
        return True
    return False


@pytest.mark.parametrize(
    "document",
    [
        {"prompt": [7] * MANY},
        {"prompt": [0] * MANY},
        {"prompt": [[7] * MANY, [8] * MANY]},
        {"messages": [{"role": "user", "content": '[{"a": [1, 2]}],' * MANY}]},
        {"messages": [{"role": "user", "content": '\\"[' * MANY}]},
        b'{"prompt": [' + b"1," * MANY,
        b"[" * 500,
    ],
)
def test_long_prompts_and_invalid_json_are_accepted(document: Any) -> None:
    assert not refusal_of(document)


TOKEN_IDS = {
    ("/v1/completions", "prompt"),
    ("/v1/embeddings", "input"),
    ("/pooling", "input"),
    ("/classify", "input"),
    ("/detokenize", "tokens"),
}


@pytest.mark.parametrize("field", ["prompt", "input", "tokens"])
@pytest.mark.parametrize("path", sorted(paths.GENERATING))
def test_token_ids_are_unlimited_only_in_their_field(path: str, field: str) -> None:
    assert refusal_of({"model": "m", field: [7] * MANY}, path) == ((path, field) not in TOKEN_IDS)


@pytest.mark.parametrize("item", [1, None, "a", [], [{}]])
def test_input_items_of_the_responses_api_must_be_objects(item: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"^input\[1\] is not an object") as error:
        check_body(RESPONSES, json.dumps({"input": [{}, item]}).encode())
    assert error.value.param == "input"


def test_number_of_response_items_is_limited() -> None:
    assert not refusal_of({"input": [{}] * MOST_ITEMS}, RESPONSES)
    assert not refusal_of({"input": "a text"}, RESPONSES)
    with pytest.raises(
        InvalidRequest, match=r"^input has 4097 items, but this server accepts at most 4096\.$"
    ) as error:
        check_body(RESPONSES, json.dumps({"input": [{}] * (MOST_ITEMS + 1)}).encode())
    assert error.value.param == "input"


@pytest.mark.parametrize("name", ["media_io_kwargs", "mm_processor_kwargs"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/pooling", "/tokenize", "/score"])
def test_options_of_media_are_refused_in_requests(path: str, name: str) -> None:
    document = {name: {"video": {"num_frames": -1}}}
    sentence = f"^{name} is not allowed in requests to this server\\. .* for the server in spec.engine.settings\\.$"
    with pytest.raises(InvalidRequest, match=sentence) as error:
        check_body(path, json.dumps(document).encode())
    assert error.value.param == name
    assert refusal_of(b'{"\\u006d' + json.dumps(document).encode()[3:], path)  # The same name in another spelling.
    assert not refusal_of({name: None}, path)


@pytest.mark.parametrize(
    ("name", "neutral", "value"), [("min_p", 0, 0.1), ("logit_bias", {}, {"1": 1}), ("k", None, 0)]
)
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages"])
def test_fields_that_the_engine_ignores_are_refused(path: str, name: str, neutral: object, value: object) -> None:
    ignored = {name: neutral}
    with pytest.raises(InvalidRequest, match=rf"^This server cannot apply {name}: .* Remove {name}\.$") as error:
        check_body(path, json.dumps({name: value}).encode(), ignored_fields=ignored)
    assert error.value.param == name
    for accepted in ({name: neutral}, {name: None}, {}):
        check_body(path, json.dumps(accepted).encode(), ignored_fields=ignored)


def test_body_that_is_nested_too_deeply_is_refused() -> None:
    # The body must be refused before the application parses it. The application's parser has a deeper stack, so it
    # could exceed the recursion limit.
    assert refusal_of(b"[" * MOST_VALUES + b"]" * MOST_VALUES)


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
        {"promps": [7] * MANY},
        {"a": [["a"] * (MANY // 2)], "b": [["a"] * (MANY // 2)]},
        {"messages": [{"content": [{}] * 150} for _ in range(150)]},
        [7] * MANY,
        {f"{number}": 0 for number in range(MANY)},
        b"[" * MANY,
        json.dumps({"prompt": "a"}).encode("utf-16"),
    ],
)
def test_many_values_outside_of_prompts_are_refused(document: Any) -> None:
    assert refusal_of(document)


def test_message_names_the_limit_and_its_exceptions() -> None:
    with pytest.raises(InvalidRequest) as error:
        check_body(GENERATING, b"[" * MANY)
    assert error.value.message == (
        "The body has more than 20000 values, not counting token ids. Send fewer or smaller requests."
    )


@given(JSON)
def test_accepted_documents_have_at_most_the_allowed_values(document: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bodies, "MOST_VALUES", 5)
        if not refusal_of(document):
            assert count_values(document) <= 6


def count_values(document: Any, name: str | None = None, depth: int = 0) -> int:
    """Return the number of values in a document, including the document. Token IDs of a prompt do not count."""
    if isinstance(document, dict):
        return 1 + sum(count_values(each, key if depth == 0 else None, depth + 1) for key, each in document.items())
    if not isinstance(document, list):
        return 1
    ids = all(type(each) is int and 0 <= each < 2**32 for each in document)
    if name == "prompt" and ids:
        return 1
    return 1 + sum(count_values(each, name, depth + 1) for each in document)


def test_body_of_unterminated_strings_is_scanned_once() -> None:
    # These 4 MB contain only quotes without an end. A scan from each quote to the end of the body would take 8 * 10**12
    # steps.
    assert refusal_of(b"[" * MANY + b'\\"' * 2**21)


def test_many_values_are_refused_without_parsing_them() -> None:
    body = b'{"messages": [' + b",".join([b"7"] * MANY * 50) + b"]}"
    tracemalloc.start()
    try:
        assert refusal_of(body, "/v1/chat/completions")
        assert tracemalloc.get_traced_memory()[1] < 3 * len(body)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("token", [7, 2**31])
async def test_long_prompt_of_token_ids_reaches_the_application(token: int) -> None:
    """A small body is checked directly, and a large body is checked in a thread."""
    body = {"prompt": [token] * MANY * 2}
    assert (len(json.dumps(body)) < bodies.LARGE_BYTES) is (token == 7)
    assert (await GuardedApp(healthy_app).client.post(GENERATING, json=body)).text == "theirs"


async def test_large_body_is_checked_completely() -> None:
    body = json.dumps({"prompt": "x" * bodies.LARGE_BYTES, "messages": [[]] * MANY}).encode()
    assert (await send_body(GENERATING, "application/json", body)).status_code == 400


async def test_refused_body_does_not_reach_the_application() -> None:
    answer = await GuardedApp(healthy_app).client.post(GENERATING, json={"messages": [[]] * MANY})
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


async def send_body(path: str, kind: str | None, content: bytes) -> Response:
    return await GuardedApp(healthy_app).client.post(
        path, content=content, headers={"content-type": kind} if kind else {}
    )


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
async def test_json_is_accepted(kind: str) -> None:
    assert (await send_body(GENERATING, kind, b"{}")).text == "theirs"


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "",
        "multipart/x",
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded",
        "text/plain",
        "application/jsonx",
        "application/vnd.api+json",
    ],
)
async def test_content_types_other_than_json_are_refused(kind: str | None) -> None:
    answer = await send_body(GENERATING, kind, b"[]," * MANY)
    assert (answer.status_code, answer.json()["error"]["message"]) == (
        415,
        "/v1/completions requires Content-Type application/json. Send a body of this type.",
    )


@pytest.mark.parametrize("path", ["/v1/audio/transcriptions", "/v1/audio/translations"])
async def test_audio_is_accepted_in_a_form(path: str) -> None:
    assert (await GuardedApp(healthy_app).client.post(path, files={"file": b"\0," * MANY})).text == "theirs"
    for kind in ("application/json", "application/x-www-form-urlencoded", "multipart/x", None):
        assert (await send_body(path, kind, b"{}")).status_code == 415


async def test_body_above_the_limit_is_refused_with_413(api: Served) -> None:
    answer = await api.http.post(
        "/v1/completions", content=b'"' + b" " * 17 * 1024 * 1024, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 413
    assert answer.json()["error"]["message"] == "The body is larger than 16777216 bytes."


async def test_chunked_body_is_cut_off_at_the_limit(api: Served) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(17):
            yield b" " * 1024 * 1024

    answer = await api.http.post("/v1/completions", content=pieces(), headers={"content-type": "application/json"})
    assert answer.status_code == 413


async def test_body_of_exactly_the_limit_is_read(api: Served) -> None:
    head = {"content-type": "application/json"}
    answer = await api.http.post("/v1/completions", content=b" " * 16 * 1024 * 1024, headers=head)
    assert answer.status_code == 400
