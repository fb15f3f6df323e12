"""A complete life cycle (start, warm up, serve, drain) of a real process with real sockets and the sim engine."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from openai import OpenAI

from gaudi_runtime.contract.config import WarmupConfig, plan_hash
from gaudi_runtime.contract.ports import INSTANCE_HEADER
from gaudi_runtime.contract.report import Phase, WarmupReport
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.runtime_process import RuntimeProcess, runtime_process, wait_until


def client(runtime: RuntimeProcess) -> OpenAI:
    return OpenAI(base_url=f"{runtime.model_url}/v1", api_key="none", max_retries=0)


def test_running_stream_is_finished_after_sigterm(tmp_path: Path) -> None:
    config = sim_config({"compileSeconds": 0.05, "captureSeconds": 0.05, "tokensPerSecond": 20})
    with runtime_process(tmp_path, config) as runtime:
        reports = runtime.follow(Phase.SERVING)
        ready = reports[-1]
        assert [report.sequence for report in reports] == sorted({report.sequence for report in reports})
        assert {report.instance for report in reports} == {ready.instance}
        assert ready.plan_hash == plan_hash(config.bucketing, config.limits)
        assert ready.prompt.planned == ready.prompt.warmed == ready.prompt.captured == 4
        assert ready.decode.planned == ready.decode.captured > 0
        assert ready.simulated
        assert runtime.get("/readyz").status_code == 200

        with client(runtime) as openai:
            stream = openai.chat.completions.create(
                model="echo", messages=[{"role": "user", "content": "hello there"}], stream=True
            )
            pieces = [next(stream) for _ in range(3)]
            runtime.signal(signal.SIGTERM)
            wait_until(lambda: not runtime.model_port_open())
            assert runtime.process.poll() is None
            assert runtime.report().phase is Phase.DRAINING
            assert runtime.get("/readyz").status_code == 503
            pieces += list(stream)
        text = "".join(piece.choices[0].delta.content or "" for piece in pieces)
        assert text == "user: hello there\nassistant:"
        assert pieces[-1].choices[0].finish_reason == "stop"
        assert runtime.exit_code() == 0


def is_warm(report: WarmupReport) -> bool:
    return all(each.planned and each.captured == each.planned for each in (report.prompt, report.decode))


def test_model_port_is_closed_until_the_instance_is_warm(tmp_path: Path) -> None:
    config = sim_config({"compileSeconds": 0.05, "captureSeconds": 0.05})
    early: list[bool] = []
    with runtime_process(tmp_path, config) as runtime:
        # Check the port before the report. If the port is open but the later report is not warm, the port was opened
        # too early.
        while not (is_open := runtime.model_port_open()) or not is_warm(runtime.report()):
            early.append(is_open)
    assert len(early) > 3
    assert not any(early)


def test_instance_with_disabled_warm_up_serves_after_loading(tmp_path: Path) -> None:
    with runtime_process(tmp_path, sim_config(warmup=WarmupConfig(enabled=False))) as runtime:
        report = runtime.follow(Phase.SERVING)[-1]
        assert (report.warmup_skipped, report.prompt.planned, report.prompt.warmed) == (True, 4, 0)
        assert runtime.model_port_open()


def test_responses_have_the_instance_header(tmp_path: Path) -> None:
    with runtime_process(tmp_path, sim_config(warmup=WarmupConfig(enabled=False))) as runtime:
        instance = runtime.follow(Phase.SERVING)[-1].instance
        assert httpx.get(f"{runtime.model_url}/v1/models").headers[INSTANCE_HEADER] == instance


def test_drain_ends_at_its_timeout_despite_an_open_stream(tmp_path: Path) -> None:
    config = sim_config({"tokensPerSecond": 2}, serving={"drain_seconds": 1})
    with runtime_process(tmp_path, config) as runtime:
        runtime.follow(Phase.SERVING)
        body = {"model": "echo", "prompt": "endless", "stream": True, "max_tokens": 500, "ignore_eos": True}
        with (
            httpx.Client(trust_env=False) as http,
            http.stream("POST", f"{runtime.model_url}/v1/completions", json=body) as answer,
        ):
            lines = answer.iter_lines()
            assert next(lines).startswith("data: ")
            runtime.signal(signal.SIGTERM)
            with pytest.raises(httpx.RemoteProtocolError):
                list(lines)
        assert runtime.exit_code() == 0


def test_sigterm_during_warmup_stops_between_two_buckets(tmp_path: Path) -> None:
    with runtime_process(tmp_path, sim_config({"compileSeconds": 0.5})) as runtime:
        runtime.follow(Phase.COMPILING)
        runtime.signal(signal.SIGTERM)
        assert runtime.exit_code() == 0
        assert "Stopped before serving" in runtime.log.read_text()


def test_sigterm_during_an_endless_compile_ends_within_the_drain_time(tmp_path: Path) -> None:
    config = sim_config({"stallAtBucket": "prompt:2"}, serving={"drain_seconds": 1})
    with runtime_process(tmp_path, config) as runtime:
        wait_until(lambda: runtime.report().prompt.warmed == 1)
        runtime.signal(signal.SIGTERM)
        assert runtime.exit_code() == 0


def test_responses_during_prestop_close_their_connection(tmp_path: Path) -> None:
    with runtime_process(tmp_path, sim_config()) as runtime:
        runtime.follow(Phase.SERVING)
        with httpx.Client(trust_env=False) as http:
            url = f"{runtime.model_url}/v1/models"
            assert "connection" not in http.get(url).headers
            hook = subprocess.Popen(
                [sys.executable, "-m", "gaudi_runtime", "prestop", "--pid", str(runtime.process.pid)]
            )
            try:
                wait_until(lambda: runtime.get("/readyz").status_code == 503)
                assert hook.poll() is None
                answer = http.get(url)
                assert (answer.status_code, answer.headers["connection"]) == (200, "close")
            finally:
                hook.kill()
                hook.wait()


def test_pending_long_poll_is_answered_when_draining_starts(tmp_path: Path) -> None:
    with runtime_process(tmp_path, sim_config()) as runtime:
        sequence = runtime.follow(Phase.SERVING)[-1].sequence
        answers: list[Phase] = []
        poll = threading.Thread(target=lambda: answers.append(runtime.report(sequence, 60).phase))
        poll.start()
        runtime.signal(signal.SIGTERM)
        poll.join(30)
        assert answers == [Phase.DRAINING]
        assert runtime.exit_code() == 0
