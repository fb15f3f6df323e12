"""Failed starts: the report has the reason. The process ends only after a failure that a new process may not have."""

import signal
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from gaudi_runtime.contract.report import Phase, WarmupReport
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.runtime_process import RuntimeProcess, runtime_process, wait_until

ROOT = Path(__file__).parents[4]


def hasty_process(folder: Path, reason: str) -> AbstractContextManager[RuntimeProcess]:
    """Start a runtime that cannot load its model for `reason`, and that exits at once if this failure may pass."""
    config, variables = sim_config({"failLoad": reason}), {"PYTHONPATH": str(ROOT)}
    return runtime_process(folder, config, variables=variables, module="tests.unit.runtime.serve.hasty")


def failed(runtime: RuntimeProcess) -> WarmupReport:
    wait_until(lambda: runtime.report().phase is Phase.FAILED)
    return runtime.report()


def test_missing_model_is_reported_and_the_process_stays_alive(tmp_path: Path) -> None:
    with runtime_process(tmp_path, sim_config({"failLoad": "ModelNotFound"})) as runtime:
        failure = failed(runtime).failure
        assert failure is not None
        assert failure.reason == "ModelNotFound"
        assert runtime.get("/livez").status_code == 200
        assert runtime.get("/readyz").json()["message"].startswith("Start-up failed (ModelNotFound): ")
        assert not runtime.model_port_open()
        runtime.signal(signal.SIGTERM)
        assert runtime.exit_code() == 0


@pytest.mark.parametrize(("script", "reason"), [("HubUnreachable", "HubUnreachable"), ("NoSuchReason", "Crashed")])
def test_failure_that_may_pass_ends_the_process(script: str, reason: str, tmp_path: Path) -> None:
    with hasty_process(tmp_path, script) as runtime:
        assert runtime.exit_code() == 1
        assert f"This process exits ({reason}): " in runtime.log.read_text()


def test_failure_that_may_pass_is_reported_for_minutes(tmp_path: Path) -> None:
    with runtime_process(tmp_path, sim_config({"failLoad": "DiskFull"})) as runtime:
        assert failed(runtime).phase is Phase.FAILED
        assert runtime.get("/livez").status_code == 200
        runtime.signal(signal.SIGTERM)
        assert runtime.exit_code() == 0


def test_failure_that_cannot_pass_never_ends_the_process(tmp_path: Path) -> None:
    with hasty_process(tmp_path, "ModelNotFound") as runtime:
        assert failed(runtime).phase is Phase.FAILED
        runtime.signal(signal.SIGTERM)
        assert runtime.exit_code() == 0


def test_unexpected_exception_is_logged_with_its_traceback(tmp_path: Path) -> None:
    with runtime_process(tmp_path, sim_config({"raiseAtBucket": "decode:1"})) as runtime:
        failure = failed(runtime).failure
        assert failure is not None
        assert failure.reason == "Crashed"
        assert failure.message == "RuntimeError: simulated by raiseAtBucket=decode:1"
        assert "Traceback (most recent call last)" in runtime.log.read_text()


def test_wrong_config_is_reported_on_its_status_port(tmp_path: Path) -> None:
    config = sim_config()
    text = f'{{"serving": {config.serving.model_dump_json(by_alias=True)}, "engine": {{"name": "tpu"}}}}'
    with runtime_process(tmp_path, config, text) as runtime:
        report = failed(runtime)
        assert report.failure is not None
        assert report.failure.reason == "ConfigInvalid"
        assert "engine.name: Input should be 'vllm' or 'sim'" in report.failure.message
        assert report.plan_hash == "0" * 64


def test_blank_api_key_fails_the_start_without_opening_the_port(tmp_path: Path) -> None:
    with runtime_process(tmp_path, sim_config(), variables={"VLLM_API_KEY": " \n"}) as runtime:
        report = failed(runtime)
        assert report.failure is not None
        assert report.failure.reason == "ApiKeyBlank"
        assert "spec.server.apiKeySecretRef" in report.failure.message
        assert report.prompt.warmed == 0
        assert not runtime.model_port_open()


def test_wrong_certificate_is_a_failure_before_warm_up(tmp_path: Path) -> None:
    config = sim_config(serving={"tls_folder": str(tmp_path / "none")})
    with runtime_process(tmp_path, config) as runtime:
        report = failed(runtime)
        assert report.failure is not None
        assert report.failure.reason == "CertificateUnusable"
        assert "tls.crt cannot be read" in report.failure.message
        assert report.prompt.warmed == 0
        assert not runtime.model_port_open()


def test_stall_fails_the_liveness_probe_with_a_message(tmp_path: Path) -> None:
    config = sim_config({"stallAtBucket": "prompt:3"}, serving={"stall_timeout_seconds": 1})
    with runtime_process(tmp_path, config) as runtime:
        wait_until(lambda: runtime.get("/livez").status_code == 503)
        assert "has made no progress in phase Compiling" in runtime.get("/livez").json()["message"]
        assert runtime.report().prompt.current is not None


def test_crash_ends_the_process_with_code_139(tmp_path: Path) -> None:
    with runtime_process(tmp_path, sim_config({"crashAtBucket": "prompt:1"})) as runtime:
        assert runtime.exit_code() == 139


def test_occupied_model_port_is_a_failure_that_names_it(tmp_path: Path) -> None:
    config = sim_config()
    taken = config.serving.model_copy(update={"model_port": config.serving.status_port})
    with runtime_process(tmp_path, config.model_copy(update={"serving": taken})) as runtime:
        failure = failed(runtime).failure
        assert failure is not None
        assert failure.reason == "PortUnavailable"
        assert str(config.serving.status_port) in failure.message


def test_out_of_memory_in_capture_still_serves(tmp_path: Path) -> None:
    with runtime_process(tmp_path, sim_config({"oomAtBucket": "prompt:3"})) as runtime:
        report = runtime.follow(Phase.SERVING)[-1]
        assert (report.prompt.planned, report.prompt.warmed, report.prompt.captured) == (4, 4, 2)
        assert report.decode.captured == report.decode.planned
        assert report.skipped_total == 2
        assert "out of memory" in report.skipped[0].reason
        assert "Graph/Prompt captured:2 (50.0%)" in runtime.log.read_text()
