"""A GaudiInference read from an API server, which is an HTTP server in the test process."""

import json
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from typer.testing import CliRunner

from gaudi_operator.cli.plan.app import app
from tests.support.builders import merged
from tests.unit.operator.cli.plan.asked import INFERENCE, answer, one_sentence

PATH = "/apis/inference.gaudi.dev/v1alpha1/namespaces/{}/gaudiinferences/llama"


class Handler(BaseHTTPRequestHandler):
    answers: ClassVar[dict[str, tuple[int, object]]] = {}

    def do_GET(self) -> None:
        status, body = self.answers.get(self.path, (404, {"kind": "Status", "reason": "NotFound"}))
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: Any) -> None:
        return


@pytest.fixture
def api_server() -> Iterator[int]:
    """Start an API server and yield its port."""
    Handler.answers = {PATH.format("models"): (200, INFERENCE), PATH.format("secret"): (403, {"reason": "Forbidden"})}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return path


def write(kubeconfig: Path, port: int) -> None:
    """Write a kubeconfig whose current context has the namespace `models`."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "me", "user": {"token": "none"}}],
        "contexts": [{"name": "now", "context": {"cluster": "here", "user": "me", "namespace": "models"}}],
        "current-context": "now",
    }
    kubeconfig.write_text(yaml.safe_dump(content))


def ask(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["buckets", "--from-cluster", *arguments, "-o", "json"])


def test_inference_of_the_cluster_is_planned(kubeconfig: Path, api_server: int) -> None:
    write(kubeconfig, api_server)
    assert json.loads(ask("llama").stdout) == answer(INFERENCE)


def test_field_of_a_newer_release_causes_a_warning(kubeconfig: Path, api_server: int) -> None:
    newer = merged(INFERENCE, {"spec": {"engine": {"newField": {"a": 1}}}})
    Handler.answers[PATH.format("models")] = (200, newer)
    write(kubeconfig, api_server)
    found = json.loads(ask("llama").stdout)
    said = "spec.engine.newField is unknown to this release of gaudi-plan, which ignores the field"
    assert any(said in warning for warning in found["warnings"])


def test_namespace_option_selects_the_namespace(kubeconfig: Path, api_server: int) -> None:
    write(kubeconfig, api_server)
    said = one_sentence(ask("llama", "-n", "other"))
    assert said == "gaudi-plan: there is no GaudiInference llama in namespace other.\n"


def test_inference_of_the_cluster_is_forecast(kubeconfig: Path, api_server: int) -> None:
    Handler.answers = {PATH.format("other"): (200, INFERENCE)}
    write(kubeconfig, api_server)
    arguments = ("forecast", "--from-cluster", "llama", "-n", "other", "-o", "json")
    assert json.loads(CliRunner().invoke(app, arguments).stdout) == answer(INFERENCE, command="forecast")


def test_missing_read_permission_is_reported(kubeconfig: Path, api_server: int) -> None:
    write(kubeconfig, api_server)
    said = one_sentence(ask("llama", "-n", "secret"))
    assert "the current context may not read GaudiInference llama in namespace secret (HTTP 403)" in said


def test_unreachable_cluster_is_reported(kubeconfig: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: a connection is refused
        write(kubeconfig, taken.getsockname()[1])
        said = one_sentence(ask("llama"))
    assert "the cluster of the current context does not answer" in said
    assert "refused" in said


def test_missing_kubeconfig_is_reported(kubeconfig: Path) -> None:
    said = one_sentence(ask("llama"))
    assert "no cluster is configured" in said
    assert "Set KUBECONFIG as for kubectl" in said


def test_invalid_kubeconfig_is_reported(kubeconfig: Path) -> None:
    kubeconfig.write_text("just words")
    assert f"no cluster is configured: {kubeconfig} is not a kubeconfig" in one_sentence(ask("llama"))


def test_missing_kubernetes_client_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gaudi_operator.cli.cluster", raising=False)
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    assert "--from-cluster needs the Kubernetes client. Install the extra `cli`" in one_sentence(ask("llama"))


def measured(generation: int) -> Any:
    """Return a resource whose status has a plan that a pod measured for this generation of the spec."""
    plan = {
        "basis": "Measured",
        "promptBuckets": 8,
        "decodeBuckets": 8,
        "kvBlocks": 4321,
        "graphBytes": 3 * 2**30,
        "warmupSeconds": 96,
        "source": "pod llama-1",
    }
    status = {"observedGeneration": generation, "plan": plan}
    return merged(INFERENCE, {"metadata": {"generation": 2}, "status": status})


def forecast(*arguments: str) -> str:
    return CliRunner().invoke(app, ["forecast", "--from-cluster", "llama", *arguments]).stdout


def test_forecast_shows_measured_values_of_a_pod(kubeconfig: Path, api_server: int) -> None:
    write(kubeconfig, api_server)
    Handler.answers[PATH.format("models")] = (200, measured(2))
    said = "measured with this spec by pod llama-1: KV blocks 4,321, graphs 3.00 GiB, warm-up 96 s"
    assert said in " ".join(forecast().split())
    assert json.loads(forecast("-o", "json"))["measured"]["warmupSeconds"] == 96
    assert "KV blocks,blocks,4321,4321,4321,measured,pod llama-1" in forecast("-o", "csv")


def test_forecast_omits_values_measured_with_an_older_spec(kubeconfig: Path, api_server: int) -> None:
    write(kubeconfig, api_server)
    Handler.answers[PATH.format("models")] = (200, measured(1))
    assert json.loads(forecast("-o", "json"))["measured"] is None
