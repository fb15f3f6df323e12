"""Streams that end with an error after their first event, in the form of each engine."""

from contextlib import suppress

import pytest
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gaudi_runtime.contract.report import RequestCountsReport
from gaudi_runtime.http.metrics import RequestMetrics
from gaudi_runtime.http.openai_api.guard import GuardMiddleware

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
STREAM = b"text/event-stream; charset=utf-8"
CHUNK = b'data: {"choices":[{"delta":{"content":"Hel"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
VLLM_ERROR = (
    b'data: {"error": {"message": "EngineCore died", "type": "InternalServerError", "param": null, "code": %d}}\n\n'
)
MESSAGES_ERROR = b'event: error\ndata: {"type":"error","error":{"type":"internal_error","message":"a"}}\n\n'
OUR_ERROR = b'data: {"error":{"message":"The server failed","type":"server_error","param":null,"code":null}}\n\n'
FAILED, ANSWERED = RequestCountsReport(answered=1, failed=1), RequestCountsReport(answered=1)


class StreamingApp:
    """An application that sends `parts` as the parts of one answer, and then raises `error`."""

    def __init__(self, *parts: bytes, kind: bytes = STREAM, error: Exception | None = None) -> None:
        self.parts, self.kind, self.error = parts, kind, error

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Read one message, and send the answer."""
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", self.kind)]})
        for part in self.parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        if self.error:
            raise self.error
        await send({"type": "http.response.body"})


async def counts_of(app: ASGIApp, path: str = CHAT, received: str = "http.request") -> RequestCountsReport:
    """Return the counts after one request whose first message has the type `received`."""
    metrics = RequestMetrics(CollectorRegistry())

    async def receive() -> Message:
        return {"type": received}

    async def send(message: Message) -> None:
        pass

    guard = GuardMiddleware(app, lambda: False, metrics)
    with suppress(ZeroDivisionError):
        await guard({"type": "http", "method": "POST", "path": path, "headers": []}, receive, send)
    return metrics.request_counts()


@pytest.mark.parametrize("event", [VLLM_ERROR % 500, VLLM_ERROR % 501, MESSAGES_ERROR, OUR_ERROR])
@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_error_event_is_a_failed_answer_however_it_is_split(event: bytes, size: int) -> None:
    stream = CHUNK + event + DONE
    parts = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert await counts_of(StreamingApp(*parts)) == FAILED


@pytest.mark.parametrize(
    "event",
    [
        CHUNK,
        VLLM_ERROR % 400,
        b'data: {"text": "data: {\\"error\\": 1}\\nevent: error\\n"}\n\n',
        b"event: response.error.delta\ndata: {}\n\n",
    ],
    ids=["text", "error of the request", "text like an error", "another event"],
)
async def test_other_events_are_not_a_failed_answer(event: bytes) -> None:
    assert await counts_of(StreamingApp(CHUNK, event, DONE)) == ANSWERED


async def test_stream_with_two_errors_is_one_failed_answer() -> None:
    app = StreamingApp(VLLM_ERROR % 500, VLLM_ERROR % 500, error=ZeroDivisionError())
    assert await counts_of(app) == FAILED


async def test_text_like_an_error_in_another_answer_is_not_failed() -> None:
    assert await counts_of(StreamingApp(OUR_ERROR, kind=b"text/plain")) == ANSWERED


async def test_exception_after_the_first_event_is_a_failed_answer() -> None:
    assert await counts_of(StreamingApp(CHUNK, error=ZeroDivisionError())) == FAILED


async def test_exception_after_the_client_disconnected_is_not_a_failed_answer() -> None:
    assert await counts_of(StreamingApp(CHUNK, error=ZeroDivisionError()), received="http.disconnect") == ANSWERED


async def test_exception_after_a_complete_answer_is_not_a_failed_answer() -> None:
    class FailingLater(StreamingApp):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await super().__call__(scope, receive, send)
            raise ZeroDivisionError

    assert await counts_of(FailingLater(CHUNK)) == ANSWERED


async def test_disconnect_before_the_answer_is_not_a_server_error() -> None:
    async def failing(_: Scope, receive: Receive, __: Send) -> None:
        await receive()
        raise ZeroDivisionError

    assert await counts_of(failing, received="http.disconnect") == ANSWERED
    assert await counts_of(failing) == FAILED
