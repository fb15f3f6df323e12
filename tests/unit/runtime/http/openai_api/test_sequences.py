"""A request takes a place for each of its sequences, after its body was read."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gaudi_runtime.contract.config import ParallelismConfig
from gaudi_runtime.http.openai_api.body import check_body
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.http.openai_api.test_guard import GENERATING, GuardedApp, HoldingApp, healthy_app

CHAT, AUDIO = "/v1/chat/completions", "/v1/audio/transcriptions"


def sequences_of(document: dict[str, Any], path: str = GENERATING) -> int:
    return check_body(path, json.dumps(document).encode())


@pytest.mark.parametrize(
    ("prompt", "sequences"),
    [
        ("text", 1),
        ([7, 8, 9], 1),
        (["a", "b"], 2),
        ([[7], [8], [9]], 3),
        ([], 1),
        (None, 1),
        ({"a": 1}, 1),
    ],
)
def test_each_prompt_is_a_sequence_but_a_token_is_not(prompt: Any, sequences: int) -> None:
    assert sequences_of({"prompt": prompt}) == sequences
    assert sequences_of({"prompt": prompt, "n": 5}) == 5 * sequences


@pytest.mark.parametrize(
    ("n", "sequences"),
    [
        (3, 3),
        (3.0, 3),
        ("3", 3),
        (True, 1),
        (None, 1),
        (0, 1),
        (-4, 1),
        ("x", 1),
        (3.5, 1),
        ([3], 1),
        (10**300, 10**300),
    ],
)
def test_n_is_read_as_the_request_models_read_it(n: Any, sequences: int) -> None:
    assert sequences_of({"messages": [], "n": n}, CHAT) == sequences


@pytest.mark.parametrize("body", [b"not JSON", b"[1, 2]", b"1" * 5000, b'{"n": Infinity}'])
def test_body_that_the_application_refuses_is_one_sequence(body: bytes) -> None:
    assert check_body(GENERATING, body) == 1


@pytest.mark.parametrize(
    ("body", "sequences"), [({"n": 2}, 2), ({"prompt": ["a", "b"]}, 2), ({"prompt": [[7], [8]], "n": 2}, 4)]
)
async def test_request_needs_a_free_place_for_each_sequence(body: dict[str, Any], sequences: int) -> None:
    slow = HoldingApp()
    server = GuardedApp(slow, places=1 + sequences)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for fitting in ({}, body):
            slow.inside.clear()
            group.create_task(server.client.post(GENERATING, json=fitting))
            await slow.inside.wait()
        refused = await server.client.post(GENERATING, json={})
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
        slow.release.set()


async def test_request_with_more_sequences_than_free_places_is_refused() -> None:
    slow = HoldingApp()
    server = GuardedApp(slow, places=2)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(server.client.post(GENERATING, json={}))
        await slow.inside.wait()
        assert (await server.client.post(GENERATING, json={"n": 2})).status_code == 429
        slow.release.set()


@pytest.mark.parametrize("n", [2, 16_384, 10**4000])
async def test_request_that_can_never_fit_is_refused_with_400(n: int) -> None:
    answer = await GuardedApp(healthy_app, places=3).client.post(GENERATING, json={"prompt": ["a", "b"], "n": n})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (400, "n", None)
    assert error["message"] == (
        "The request has more sequences (prompts x n) than this server can run and queue at once, which is 3. Send "
        "fewer prompts in a request, or lower n."
    )


async def test_places_are_free_again_after_a_refusal() -> None:
    server = GuardedApp(healthy_app, places=3)
    for _ in range(3):
        assert (await server.client.post(GENERATING, json={"n": 4})).status_code == 400
        assert (await server.client.post(GENERATING, json={"n": 3})).text == "theirs"


@pytest.mark.parametrize(("beams", "status"), [("3", 200), ("4", 400), ("1_000", 400), ("x", 200)])
async def test_beams_of_an_audio_request_are_sequences(beams: str, status: int) -> None:
    form = {"files": {"file": b"\0" * 99}, "data": {"use_beam_search": "true", "n": beams}}
    answer = await GuardedApp(healthy_app, places=3).client.post(AUDIO, **form)  # type: ignore[arg-type]
    assert answer.status_code == status


async def test_form_that_cannot_be_parsed_reaches_the_application() -> None:
    head = {"content-type": "multipart/form-data; boundary=x"}
    too_many = b'--x\r\nContent-Disposition: form-data; name="n"\r\n\r\n9\r\n' * 1001 + b"--x--\r\n"
    for content in (b"", b"junk", too_many):
        assert (await GuardedApp(healthy_app).client.post(AUDIO, content=content, headers=head)).text == "theirs"


async def test_each_copy_of_the_weights_adds_places() -> None:
    config = sim_config(max_num_seqs=128, serving={"max_queued_requests": 256})
    assert config.places == 384
    assert config.model_copy(update={"parallelism": ParallelismConfig(data=8)}).places == 8 * 128 + 256


class PausedBody:
    """A body that sends its first bytes, and its last bytes after `finish` is set."""

    def __init__(self, first: bytes = b'{"n": ') -> None:
        self.first, self.begun, self.finish = first, asyncio.Event(), asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.first
        self.begun.set()
        await self.finish.wait()
        yield b"1}"


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("path", "kind"), [(GENERATING, "application/json"), (AUDIO, "multipart/form-data; boundary=x")]
)
async def test_incomplete_bodies_take_no_place_and_are_not_running(path: str, kind: str) -> None:
    server, slow = GuardedApp(healthy_app, places=1), [PausedBody() for _ in range(320)]
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        posted = [
            group.create_task(server.client.post(path, content=body, headers={"content-type": kind})) for body in slow
        ]
        for body in slow:
            await body.begun.wait()
        assert server.metrics.request_counts().running == 0
        assert (await server.client.post(GENERATING, json={})).text == "theirs"
        for body in slow:
            body.finish.set()
    assert [task.result().status_code for task in posted] == [200] * 320


async def test_full_server_reads_no_body() -> None:
    slow = HoldingApp()
    server = GuardedApp(slow)
    unread = PausedBody()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(server.client.post(GENERATING, json={}))
        await slow.inside.wait()
        assert (await server.client.post(GENERATING, content=unread, headers=JSON)).status_code == 429
        assert not unread.begun.is_set()
        slow.release.set()
