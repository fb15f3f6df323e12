"""vLLM's OpenAI application, as our runtime builds it."""

import pytest
from prometheus_client import REGISTRY
from starlette.testclient import TestClient

from gaudi_runtime.engines.vllm.vllm_imports import build_app, parse_arguments


@pytest.mark.filterwarnings("ignore")  # imports of vLLM warn
def test_requests_are_not_measured_by_vllms_middleware() -> None:
    """The status port does not show these metrics, and the middleware delays every first token."""
    app = build_app(parse_arguments([]), ("generate",), None)
    assert TestClient(app).get("/unknown").status_code == 404
    samples = (sample for family in REGISTRY.collect() for sample in family.samples)
    assert {sample.value for sample in samples if sample.name == "http_request_duration_highr_seconds_count"} <= {0.0}
