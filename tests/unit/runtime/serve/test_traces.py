"""The traces of a real runtime process: its start and its requests, but not the content of the requests."""

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gaudi_runtime.contract.report import Phase, WarmupReport
from tests.support.otlp_receiver import Received, Receiver, grpc_receiver, otlp_receiver
from tests.unit.operator.core.gaudi_classes import class_settings
from tests.unit.operator.core.rendered_pod import environment
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.runtime_process import RuntimeProcess, runtime_process, wait_until

PROMPT = "my-very-own-secret"
KEY = "key-of-this-server"
CALLER_TRACE, CALLER_SPAN = "a" * 32, "b" * 16
TRACEPARENT = {"traceparent": f"00-{CALLER_TRACE}-{CALLER_SPAN}-01"}
SERVER = 2
"""The kind of a span that answers a request, by OTLP's numbers."""


def variables(receiver: Receiver, **more: str) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_BSP_SCHEDULE_DELAY": "50", **more}


def complete(runtime: RuntimeProcess, key: str = KEY, **headers: str) -> int:
    """Send a completion of two tokens, and return the status code of the response."""
    body = {"model": "echo", "prompt": PROMPT, "max_tokens": 2}
    answer = httpx.post(
        f"{runtime.model_url}/v1/completions", json=body, headers={"authorization": f"Bearer {key}", **headers}
    )
    return answer.status_code


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Receiver, WarmupReport]]:
    """The spans of a start whose third decode graph does not fit, and of four requests until the drain."""
    config = sim_config({"oomAtBucket": "decode:3", "recompileEvery": 2})
    trace_variables = {"VLLM_API_KEY": KEY, "OTEL_SERVICE_NAME": "chat"}
    with (
        otlp_receiver() as receiver,
        runtime_process(
            tmp_path_factory.mktemp("traces"), config, variables=variables(receiver, **trace_variables)
        ) as runtime,
    ):
        report = runtime.follow(Phase.SERVING)[-1]
        assert complete(runtime, **TRACEPARENT) == 200
        assert complete(runtime) == 200
        assert complete(runtime, key="guessed") == 401
        assert httpx.get(f"{runtime.model_url}/health").status_code == 200
        big = {"model": "echo", "prompt": PROMPT, "max_tokens": 10**6, "stream": True}
        headers = {"authorization": f"Bearer {KEY}"}
        assert httpx.post(f"{runtime.model_url}/v1/completions", json=big, headers=headers).status_code == 400
        runtime.signal(signal.SIGTERM)
        assert runtime.exit_code() == 0
        yield receiver, report


def by_id(receiver: Receiver) -> dict[str, Received]:
    return {span.id: span for span in receiver.spans}


def requests(receiver: Receiver) -> list[Received]:
    return [span for span in receiver.named("POST /v1/completions") if span.kind == SERVER]


def test_start_has_a_span_for_each_stage(story: tuple[Receiver, WarmupReport]) -> None:
    (start,) = story[0].named("start")
    stages = [span for span in story[0].spans if span.parent == start.id]
    assert [span.name for span in sorted(stages, key=lambda each: each.begin)] == [
        *("Starting", "Loading", "Profiling", "Allocating", "Compiling", "Sampler", "Defragmenter", "Capturing")
    ]
    assert (start.parent, start.error) == ("", None)
    assert all(start.begin <= stage.begin <= stage.end <= start.end for stage in stages)


def test_each_bucket_has_a_span_in_its_stage(story: tuple[Receiver, WarmupReport]) -> None:
    receiver, report = story
    compiled, captured = receiver.named("compile"), receiver.named("capture")
    assert {by_id(receiver)[span.parent].name for span in compiled} == {"Compiling"}
    assert {by_id(receiver)[span.parent].name for span in captured} == {"Capturing"}
    assert len(compiled) == report.prompt.planned + report.decode.planned
    done = [span for span in captured if span.attributes["gaudi.outcome"] == "captured"]
    assert len(done) == report.prompt.captured + report.decode.captured
    graphs = sum(span.attributes["gaudi.graph_bytes"] for span in done)
    assert graphs == report.prompt.graph_bytes + report.decode.graph_bytes
    largest = compiled[0].attributes
    assert [largest[f"gaudi.bucket.{name}"] for name in ("batch_size", "query_tokens", "kv_blocks")] == [1, 512, 0]
    assert largest["gaudi.phase"] == "prompt"


def test_span_of_an_out_of_memory_capture_has_an_error(story: tuple[Receiver, WarmupReport]) -> None:
    (failed,) = [span for span in story[0].named("capture") if span.error is not None]
    assert failed.error == "simulated by oomAtBucket=decode:3"
    assert failed.attributes["error.type"] == "DeviceOutOfMemory"


def test_untried_buckets_have_a_skip_span_with_a_reason(story: tuple[Receiver, WarmupReport]) -> None:
    receiver, report = story
    left = receiver.named("skip")
    assert len(left) == report.skipped_total - 1  # One bucket was tried.
    assert all("ran out of memory" in span.attributes["gaudi.reason"] for span in left)


def test_start_span_has_kv_blocks_captured_graphs_and_service(story: tuple[Receiver, WarmupReport]) -> None:
    receiver, report = story
    (start,) = receiver.named("start")
    assert report.memory is not None
    assert start.attributes["gaudi.memory.kv_blocks"] == report.memory.kv_blocks
    assert start.attributes["gaudi.decode.captured"] == report.decode.captured == 2
    assert (start.resource["service.name"], start.resource["service.instance.id"]) == ("chat", report.instance)


def test_request_continues_the_trace_of_its_caller(story: tuple[Receiver, WarmupReport]) -> None:
    first = requests(story[0])[0]
    assert (first.trace, first.parent) == (CALLER_TRACE, CALLER_SPAN)
    assert first.attributes["http.response.status_code"] == 200
    assert first.attributes["gen_ai.request.model"] == "echo"
    assert first.attributes["gen_ai.usage.output_tokens"] == 2
    assert first.attributes["gen_ai.usage.input_tokens"] == len(PROMPT)


def test_request_span_has_the_number_of_cold_batches(story: tuple[Receiver, WarmupReport]) -> None:
    first, second, _ = requests(story[0])
    assert [span.attributes["gaudi.cold_batches"] for span in (first, second)] == [0, 1]
    assert second.parent == ""
    assert second.trace != CALLER_TRACE


def test_unauthorized_requests_and_probes_have_no_spans(story: tuple[Receiver, WarmupReport]) -> None:
    answers = [span.attributes["http.response.status_code"] for span in requests(story[0])]
    assert answers == [200, 200, 400]
    assert not [span for span in story[0].spans if "health" in span.name]


def test_no_span_contains_the_prompt_or_the_key(story: tuple[Receiver, WarmupReport]) -> None:
    sent = b"".join(story[0].bodies)
    assert b"/v1/completions" in sent
    assert PROMPT.encode() not in sent
    assert KEY.encode() not in sent


def test_callers_control_sampling_and_start_spans_are_always_sent(tmp_path: Path) -> None:
    """The variables are the ones that the operator writes, and the protocol is gRPC."""
    traced = class_settings(tracing={"endpoint": "http://to-be-replaced:4317"})
    pod = environment(defaults=traced, tracing={"samplingPercent": 0})
    written = {name: value for name, value in pod.items() if name.startswith("OTEL_")}
    with grpc_receiver() as receiver:
        trace_variables = {**written, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": receiver.url, "VLLM_API_KEY": KEY}
        with runtime_process(tmp_path, sim_config(), variables=trace_variables) as runtime:
            runtime.follow(Phase.SERVING)
            assert [complete(runtime), complete(runtime, **TRACEPARENT)] == [200, 200]
            runtime.signal(signal.SIGTERM)
            assert runtime.exit_code() == 0
    assert [span.trace for span in requests(receiver)] == [CALLER_TRACE]
    assert len(receiver.named("start")) == 1
    assert receiver.named("start")[0].resource["service.namespace"] == "models"


def test_failed_start_is_an_error_with_its_reason(tmp_path: Path) -> None:
    config = sim_config({"failLoad": "ModelNotFound"})
    with otlp_receiver() as receiver, runtime_process(tmp_path, config, variables=variables(receiver)) as runtime:
        wait_until(lambda: bool(receiver.named("start")))
        failure = runtime.report().failure
    (start,), (loading,) = receiver.named("start"), receiver.named("Loading")
    assert failure is not None
    assert start.error == loading.error == failure.message
    assert start.attributes["error.type"] == "ModelNotFound"


def test_unresponsive_collector_does_not_delay_the_runtime(tmp_path: Path) -> None:
    """If the runtime waited for the exporter's timeout, it would wait for an hour."""
    slow = {"OTEL_EXPORTER_OTLP_TIMEOUT": "3600", "OTEL_BSP_MAX_QUEUE_SIZE": "8", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4"}
    with (
        otlp_receiver(answers=False) as receiver,
        runtime_process(
            tmp_path,
            sim_config(),
            variables=variables(receiver, VLLM_API_KEY=KEY, **slow),
        ) as runtime,
    ):
        wait_until(lambda: bool(receiver.bodies))
        runtime.follow(Phase.SERVING)
        assert [complete(runtime) for _ in range(3)] == [200, 200, 200]
        runtime.signal(signal.SIGTERM)
        assert runtime.exit_code() == 0
        assert len(receiver.bodies) == 1  # This span is never acknowledged.
        log = runtime.log.read_text()
    assert log.count("Queue full, dropping") == 1
    assert log.count("Drained.") == 1


@pytest.mark.parametrize("traced", [False, True], ids=["without", "with"])
def test_library_is_imported_only_with_a_collector(tmp_path: Path, traced: bool) -> None:
    # With PYTHONPROFILEIMPORTTIME, the interpreter writes all imports to the log. No collector listens at the endpoint.
    trace_variables = {
        "PYTHONPROFILEIMPORTTIME": "1",
        **({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"} if traced else {}),
    }
    with runtime_process(tmp_path, sim_config(), variables=trace_variables) as runtime:
        runtime.follow(Phase.SERVING)
        assert ("opentelemetry.sdk" in runtime.log.read_text()) is traced
