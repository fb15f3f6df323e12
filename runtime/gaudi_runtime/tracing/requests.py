"""The span of each model request: its duration and its shapes, without its text."""

from collections.abc import Callable
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gaudi_runtime.traffic.serving_histogram import ServingHistogram

CONTEXT = TraceContextTextMapPropagator()
CONTEXT_HEADERS = frozenset({b"traceparent", b"tracestate"})
OPERATIONS = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "text_completion",
    "/v1/embeddings": "embeddings",
    "/v2/embed": "embeddings",
}
"""The attribute names, by the conventions of OpenTelemetry for generative models."""


class RequestSpans:
    """ASGI middleware that records one span per request. Spans of `app` become children of this span."""

    def __init__(
        self,
        app: ASGIApp,
        tracer: Tracer,
        is_traced: Callable[[Scope], bool],
        counters: Callable[[], ServingHistogram] | None = None,
    ) -> None:
        """Create the middleware. `is_traced` returns whether a request gets a span."""
        self._app, self._tracer, self._is_traced, self._counters = app, tracer, is_traced, counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request and record its span."""
        if not self._is_traced(scope):
            await self._app(scope, receive, send)
            return
        span = self._begin_span(scope)
        # Give each request its own state. The application writes to this state, and `_usage` reads it.
        app_scope = {**scope, "headers": _headers_with_context(scope, span), "state": dict(scope.get("state") or {})}
        counts_before = self._read_counters() if span.is_recording() else (0, 0)

        async def send_and_record(message: Message) -> None:
            if message["type"] == "http.response.start":
                _record_status(span, message["status"])
            await send(message)

        try:
            await self._app(app_scope, receive, send_and_record)
        except BaseException as error:
            _record_error(span, type(error).__name__)
            raise
        finally:
            if span.is_recording():
                self._record_result(span, app_scope["state"], counts_before)
            span.end()

    def _begin_span(self, scope: Scope) -> Span:
        path = scope["path"]
        attributes = {
            "http.request.method": scope["method"],
            "http.route": path,
            "url.path": path,
            "url.scheme": scope["scheme"],
            **({"gen_ai.operation.name": OPERATIONS[path]} if path in OPERATIONS else {}),
        }
        return self._tracer.start_span(
            f"{scope['method']} {path}", _parent_context(scope), kind=SpanKind.SERVER, attributes=attributes
        )

    def _record_result(self, span: Span, state: dict[str, Any], counts_before: tuple[int, int]) -> None:
        span.set_attributes(_usage_attributes(state))
        if getattr(state.get("generation"), "is_broken", False):
            _record_error(span, "broke_off")
        if self._counters:
            cold, compiles = self._read_counters()
            # The engine runs one batch at a time. If a batch compiles, all current requests wait, so each of their
            # spans counts the compile.
            span.set_attributes(
                {"gaudi.cold_batches": cold - counts_before[0], "gaudi.recompiles": compiles - counts_before[1]}
            )

    def _read_counters(self) -> tuple[int, int]:
        counters = self._counters() if self._counters else None
        return (sum(counters.cold_batches.values()), counters.recompiles) if counters else (0, 0)


def _parent_context(scope: Scope) -> Context:
    headers = Headers(scope=scope)
    return CONTEXT.extract(
        {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}, Context()
    )


def _headers_with_context(scope: Scope, span: Span) -> list[tuple[bytes, bytes]]:
    carrier = dict[str, str]()
    CONTEXT.inject(carrier, set_span_in_context(span, Context()))
    headers = [header for header in scope["headers"] if header[0] not in CONTEXT_HEADERS]
    return [*headers, *((name.encode(), value.encode()) for name, value in carrier.items())]


def _record_status(span: Span, status: int) -> None:
    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        _record_error(span, str(status))


def _record_error(span: Span, error_type: str) -> None:
    # Do not record the error message, because it may contain text of the request.
    span.set_attribute("error.type", error_type)
    span.set_status(Status(StatusCode.ERROR))


def _usage_attributes(state: dict[str, Any]) -> dict[str, str | int]:
    """Return the model and the token counts from the request's state, as our application or vLLM's writes them."""
    generation, request_metadata = state.get("generation"), state.get("request_metadata")
    usage = generation.usage if generation else getattr(request_metadata, "final_usage_info", None)
    usage_fields = {"gen_ai.usage.input_tokens": "prompt_tokens", "gen_ai.usage.output_tokens": "completion_tokens"}
    token_counts = {name: getattr(usage, field, None) for name, field in usage_fields.items()}
    return {
        **({"gen_ai.request.model": state["model"]} if "model" in state else {}),
        **{name: count for name, count in token_counts.items() if isinstance(count, int)},
    }
