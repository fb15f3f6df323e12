"""The CPU example with many concurrent clients. vLLM combines decodes and several prompts in one step."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gaudi_operator.core.inference import read_inference
from gaudi_operator.core.rendering.runtime_config import runtime_config
from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.contract.report import Phase
from tests.support.concurrent_load import MIXED_SAMPLING, count_tokens, mixed_requests, send_requests
from tests.support.examples import FOLDER
from tests.unit.runtime.configs import free_port
from tests.unit.runtime.runtime_process import runtime_process, wait_until
from tests.vllm.configs import MODEL, ONE_PROCESS

REQUESTS = 150
VARIANTS = (
    pytest.param({}, id="as-it-is"),
    pytest.param({"model": {"maxModelLen": 1024}}, id="longer-model"),
    pytest.param({"engine": {"maxNumSeqs": 16}}, id="more-sequences"),
)
"""Each case compiles for a minute or more. `make test` runs the first one."""
RECOMPILING = "Recompiling function"
"""The text in Dynamo's log for each compilation after the first of a function."""


@pytest.fixture(scope="module", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The caches of compiled code that all runtimes of this file share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        yield


def example(checkpoint: Path, folder: Path, **changes: dict[str, Any]) -> RuntimeConfig:
    """Return the operator's configuration for examples/tiny-vllm-cpu.yaml, with paths and ports of this machine."""
    manifest = yaml.safe_load((FOLDER / "tiny-vllm-cpu.yaml").read_text())
    manifest["metadata"] |= {"namespace": "default", "uid": "0"}
    for part, fields in changes.items():
        manifest["spec"][part] |= fields
    config = runtime_config(read_inference(manifest))
    return config.model_copy(
        update={
            "model": config.model.model_copy(update={"path": str(checkpoint)}),
            "engine": config.engine.model_copy(update={"settings": ONE_PROCESS}),
            "serving": config.serving.model_copy(update={"model_port": free_port(), "status_port": free_port()}),
            "recipe_cache_dir": str(folder / "recipes"),
        }
    )


@pytest.mark.parametrize("changes", VARIANTS if os.environ.get("VLLM_VARIANTS") else VARIANTS[:1])
def test_concurrent_clients_with_mixed_sampling_cause_no_compile(
    checkpoint: Path, tmp_path: Path, changes: dict[str, dict[str, Any]]
) -> None:
    config = example(checkpoint, tmp_path, **changes)
    with runtime_process(tmp_path, config, variables={"TORCH_LOGS": "recompiles"}) as runtime:
        ready = runtime.follow(Phase.SERVING)[-1]
        assert (ready.prompt.captured, ready.decode.captured) == (ready.prompt.planned, ready.decode.planned)
        before = runtime.log.read_text(errors="replace").count(RECOMPILING)
        assert before > 0, "Dynamo's log is read"
        requests = mixed_requests(config.limits.max_model_len, REQUESTS, MIXED_SAMPLING)
        send_requests(runtime.model_url, MODEL, requests)
        wait_until(lambda: count_tokens(runtime.report()) >= sum(each.tokens for each in requests))
        served = runtime.report().served
        assert 0 < served.prompt.hits < REQUESTS, "prompts share steps"
        assert (served.prompt.misses, served.decode.misses, runtime.report().recompiles_since_ready) == (0, 0, 0)
        assert runtime.log.read_text(errors="replace").count(RECOMPILING) == before
