"""vLLM's own OpenAI application behind our gate, in eager mode. All tests share one runtime.

The last test kills a process of vLLM. The runtime then ends.
"""

import json
import re
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import psutil
import pytest
from openai import BadRequestError, InternalServerError, OpenAI

from gaudi_runtime.contract.ports import INSTANCE_HEADER
from gaudi_runtime.contract.report import BucketPhase, Phase
from gaudi_runtime.traffic.histogram import parse_traffic
from tests.support.otlp_receiver import Receiver, otlp_receiver
from tests.support.weather_tool import WEATHER
from tests.unit.operator.hostile.limited import peak
from tests.unit.runtime.runtime_process import RuntimeProcess, runtime_process, wait_until
from tests.vllm.adapter import make_adapter
from tests.vllm.configs import MODEL, vllm_config
from tests.vllm.greedy_tokens import served_tokens, transformers_tokens

ADAPTER = "loud"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """A collector for the traces of the runtime."""
    with otlp_receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def runtime(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[RuntimeProcess]:
    """A runtime that is warm and serves."""
    folder = tmp_path_factory.mktemp("serving")
    settings = {"--enable-auto-tool-choice": "true", "--tool-call-parser": "hermes"}
    adapters = (make_adapter(folder / "adapter", ADAPTER),)
    config = vllm_config(checkpoint, folder, settings=settings, adapters=adapters)
    traces = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_BSP_SCHEDULE_DELAY": "200"}
    with runtime_process(folder, config, variables=traces) as process:
        process.follow(Phase.SERVING)
        yield process


@pytest.fixture
def openai(runtime: RuntimeProcess) -> Iterator[OpenAI]:
    """An OpenAI client without retries."""
    with OpenAI(base_url=f"{runtime.model_url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_eager_mode_reports_no_captured_graphs(runtime: RuntimeProcess) -> None:
    report = runtime.report()
    assert report.prompt.warmed == report.prompt.planned == 2
    assert report.decode.warmed == report.decode.planned > 2
    assert not report.prompt.has_second_step
    assert report.prompt.captured == report.decode.captured == 0
    assert not report.simulated


def test_report_has_the_measured_memory_split(runtime: RuntimeProcess) -> None:
    memory = runtime.report().memory
    assert memory is not None
    assert memory.usable == memory.graphs + memory.kv_cache <= memory.free
    assert memory.kv_blocks > 0
    assert memory.kv_cache % memory.kv_blocks == 0


def test_chat_answer_has_the_header_of_this_instance(runtime: RuntimeProcess, openai: OpenAI) -> None:
    answer = openai.chat.completions.with_raw_response.create(
        model=MODEL, messages=[{"role": "user", "content": "hello"}], max_tokens=8, extra_body={"ignore_eos": True}
    )
    assert answer.headers[INSTANCE_HEADER] == runtime.report().instance
    assert answer.parse().usage.completion_tokens == 8  # type: ignore[union-attr]


def test_vllm_span_is_a_child_of_the_caller(openai: OpenAI, receiver: Receiver) -> None:
    caller, parent = "c" * 32, "d" * 16
    openai.completions.create(
        model=MODEL,
        prompt="not to be sent on",
        max_tokens=3,
        extra_body={"ignore_eos": True},
        extra_headers={"traceparent": f"00-{caller}-{parent}-01"},
    )
    wait_until(lambda: any(each.trace == caller for each in receiver.spans))
    (span,) = (each for each in receiver.spans if each.trace == caller)
    assert (span.name, span.parent) == ("llm_request", parent)
    assert span.attributes["gen_ai.usage.completion_tokens"] == 3
    assert not [body for body in receiver.bodies if b"not to be sent on" in body]


def test_start_spans_of_vllm_are_sent(receiver: Receiver) -> None:
    assert receiver.named("Load weights", "Executor init")


def test_streamed_chat_equals_the_complete_answer(openai: OpenAI) -> None:
    pending = {"model": MODEL, "messages": [{"role": "user", "content": "one two"}], "max_tokens": 12, "temperature": 0}
    whole = openai.chat.completions.create(**pending)  # type: ignore[call-overload]
    stream = openai.chat.completions.create(**pending, stream=True)  # type: ignore[call-overload]
    assert "".join(piece.choices[0].delta.content or "" for piece in stream) == whole.choices[0].message.content


def test_named_tool_is_called_with_arguments_of_its_schema(openai: OpenAI) -> None:
    answer = openai.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "weather?"}],
        tools=[WEATHER],  # type: ignore[list-item]
        tool_choice={"type": "function", "function": {"name": "weather"}},
        max_tokens=200,
        temperature=0,
    )
    calls = answer.choices[0].message.tool_calls
    assert calls
    assert json.loads(calls[0].function.arguments)["city"] in ("Oslo", "Rome")  # type: ignore[union-attr]


def ask_for_schema(openai: OpenAI, schema: object) -> None:
    openai.completions.create(
        model=MODEL, prompt="a", max_tokens=1, extra_body={"structured_outputs": {"json": schema}}
    )


@pytest.mark.parametrize("as_text", [False, True])
def test_grammar_is_served_up_to_64_levels_and_refused_above(openai: OpenAI, as_text: bool) -> None:
    for levels in (64, 65):
        text = '{"type":"array","items":' * (levels - 1) + "{}" + "}" * (levels - 1)
        schema = text if as_text else json.loads(text)
        if levels == 64:
            ask_for_schema(openai, schema)
        else:
            with pytest.raises(BadRequestError, match="nested more than 64 levels"):
                ask_for_schema(openai, schema)


def test_schema_for_the_outlines_backend_is_refused(openai: OpenAI) -> None:
    deep = json.loads('{"type":"array","items":' * 50 + "{}" + "}" * 50)
    schema = {"type": "object", "properties": {"a": deep}, "patternProperties": {"^b": deep}}
    with pytest.raises(BadRequestError, match="Avoid patternProperties"):
        ask_for_schema(openai, schema)


def test_invalid_grammar_is_refused_with_the_message_of_vllm(openai: OpenAI) -> None:
    with pytest.raises(BadRequestError, match="Invalid grammar specification"):
        openai.completions.create(
            model=MODEL, prompt="a", max_tokens=1, extra_body={"structured_outputs": {"grammar": "root ::= ("}}
        )


def test_vllm_and_transformers_return_the_same_tokens(checkpoint: Path, openai: OpenAI) -> None:
    prompts = [[5, 6, 7], list(range(3, 70)), [400] * 40]
    assert served_tokens(openai, prompts, 24) == transformers_tokens(checkpoint, prompts, 24)


def test_adapter_is_served_as_a_separate_model_name(openai: OpenAI) -> None:
    assert {MODEL, ADAPTER} <= {each.id for each in openai.models.list()}
    pending = {"prompt": [5, 6, 7], "max_tokens": 12, "temperature": 0}
    texts = {name: openai.completions.create(model=name, **pending).choices[0].text for name in (MODEL, ADAPTER)}  # type: ignore[call-overload]
    assert texts[ADAPTER] != texts[MODEL]


def test_seeded_requests_with_split_prompts_have_equal_answers(openai: OpenAI) -> None:
    """The prompt has three chunks. vLLM rewinds the generator of the request after the first two chunks."""
    prompt = [3 + at % 250 for at in range(300)]
    answers = {
        openai.completions.create(model=MODEL, prompt=prompt, max_tokens=8, temperature=1, seed=7).choices[0].text
        for _ in range(3)
    }
    assert len(answers) == 1


def test_prompt_above_the_limit_is_refused_with_a_message(openai: OpenAI) -> None:
    with pytest.raises(BadRequestError, match="1024"):
        openai.completions.create(model=MODEL, prompt=[1] * 10_000, max_tokens=5)


def test_server_answers_after_malformed_json_was_refused(runtime: RuntimeProcess, openai: OpenAI) -> None:
    answer = httpx.post(
        f"{runtime.model_url}/v1/completions", content="{", headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400
    assert openai.models.list().data[0].id == MODEL


def test_body_of_many_empty_lists_is_refused_without_using_memory(runtime: RuntimeProcess) -> None:
    # Without our limit, vLLM needed 6 GB of memory to validate this body, and blocked the event loop for 20 s.
    body = '{"model": "m", "messages": [' + "[]," * 400_000 + "[]]}"
    headers = {"content-type": "application/json"}
    before = peak(runtime.process.pid)
    answer = httpx.post(f"{runtime.model_url}/v1/chat/completions", content=body, headers=headers, timeout=60)
    assert (answer.status_code, "20000 values" in answer.text) == (400, True)
    assert peak(runtime.process.pid) - before < 2**28


def test_disconnect_during_a_stream_ends_its_request(runtime: RuntimeProcess, openai: OpenAI) -> None:
    stream = openai.completions.create(
        model=MODEL, prompt="go", max_tokens=900, stream=True, extra_body={"ignore_eos": True}
    )
    next(iter(stream))
    stream.close()
    wait_until(lambda: metric(runtime, "gaudi_sequences_running") == 0)


def test_request_with_more_sequences_than_places_is_refused(runtime: RuntimeProcess, openai: OpenAI) -> None:
    # The model has 2 + 256 places. Without the limit, vLLM would make 16 million requests of this body.
    with pytest.raises(BadRequestError, match="more sequences"):
        openai.completions.create(model=MODEL, prompt=["a"] * 1024, n=16_384, temperature=1)
    answer = openai.completions.create(model=MODEL, prompt=["a"] * 3, n=2, temperature=1, max_tokens=1)
    assert len(answer.choices) == 6
    assert metric(runtime, "gaudi_requests_running") == 0


def test_bodies_that_never_come_do_not_keep_out_a_request(runtime: RuntimeProcess, openai: OpenAI) -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
    with ExitStack() as connections:
        for _ in range(320):
            slow = connections.enter_context(socket.create_connection(("127.0.0.1", runtime.model_port)))
            slow.sendall(head)
        assert openai.completions.create(model=MODEL, prompt="a", max_tokens=1).choices


def test_client_with_an_incomplete_request_is_disconnected(runtime: RuntimeProcess) -> None:
    with socket.create_connection(("127.0.0.1", runtime.model_port)) as slow:
        slow.settimeout(30)
        slow.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n")
        assert slow.recv(1024) == b""


def test_messages_and_tokenize_routes_are_forwarded_to_vllm(runtime: RuntimeProcess) -> None:
    message = {"model": MODEL, "max_tokens": 4, "messages": [{"role": "user", "content": "hello"}]}
    assert httpx.post(f"{runtime.model_url}/v1/messages", json=message, timeout=60).json()["role"] == "assistant"
    counted = httpx.post(f"{runtime.model_url}/tokenize", json={"model": MODEL, "prompt": "hello"})
    assert counted.json()["count"] > 0


@pytest.mark.parametrize("path", ["/openapi.json", "/metrics", "/load", "/ping", "/v1/load_lora_adapter"])
def test_unlisted_route_of_vllm_is_not_found(runtime: RuntimeProcess, path: str) -> None:
    for method in ("GET", "POST"):
        assert httpx.request(method, f"{runtime.model_url}{path}").status_code == 404


def test_metrics_page_has_metrics_of_vllm_and_of_the_runtime(runtime: RuntimeProcess) -> None:
    page = runtime.get("/metrics").text
    for name in ("prompt_tokens_total", "generation_tokens_total", "time_to_first_token_seconds_bucket"):
        assert f"vllm:{name}{{" in page
    assert "gaudi_buckets" in page


def test_traffic_endpoint_lists_served_shapes(runtime: RuntimeProcess, openai: OpenAI) -> None:
    openai.completions.create(model=MODEL, prompt=[9] * 77, max_tokens=3, extra_body={"ignore_eos": True})
    wait_until(lambda: any(shape.query_len == 77 for shape in served_shapes(runtime, BucketPhase.PROMPT)))
    assert served_shapes(runtime, BucketPhase.DECODE)


def served_shapes(runtime: RuntimeProcess, phase: BucketPhase) -> list[object]:
    return list(parse_traffic(runtime.get("/v1/traffic").text).shapes_of(phase))


def metric(runtime: RuntimeProcess, name: str) -> float:
    lines = (line.rpartition(" ") for line in runtime.get("/metrics").text.splitlines())
    return next(float(value) for found, _, value in lines if found == name)


def test_death_of_a_vllm_process_ends_the_runtime_with_reason(runtime: RuntimeProcess, openai: OpenAI) -> None:
    below = psutil.Process(runtime.process.pid).children(recursive=True)
    core = next(each for each in below if "EngineCore" in "".join(each.cmdline()))
    with ThreadPoolExecutor() as executor:
        pending = executor.submit(
            openai.completions.create,
            model=MODEL,
            prompt=[9] * 7,
            max_tokens=900,
            extra_body={"ignore_eos": True},  # A sampled end token could end the request before it is observed.
        )
        wait_until(lambda: pending.done() or runtime.report().requests.running == 1)
        core.send_signal(signal.SIGKILL)
        with pytest.raises(InternalServerError, match="EngineCore"):
            pending.result()
    assert runtime.exit_code() == 1
    log = runtime.log.read_text(errors="replace")
    assert re.search(r"died while it served: EngineCore.* SIGKILL", log)
    wait_until(lambda: not any(each.is_running() for each in below))
