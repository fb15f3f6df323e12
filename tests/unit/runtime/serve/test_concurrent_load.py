"""The example of the simulation with many concurrent clients: no batch is cold."""

from pathlib import Path
from typing import Any

import yaml

from gaudi_operator.core.inference import read_inference
from gaudi_operator.core.rendering.runtime_config import runtime_config
from gaudi_runtime.contract.report import Phase
from tests.support.concurrent_load import count_tokens, mixed_requests, send_requests
from tests.support.examples import FOLDER
from tests.unit.runtime.configs import free_port
from tests.unit.runtime.runtime_process import runtime_process, wait_until

REQUESTS = 120
LENGTH = 250


def test_concurrent_clients_cause_no_cold_batch(tmp_path: Path) -> None:
    manifest: Any = yaml.safe_load((FOLDER / "tiny-sim.yaml").read_text())
    manifest["metadata"] |= {"namespace": "default", "uid": "0"}
    config = runtime_config(read_inference(manifest))
    config = config.model_copy(
        update={
            "serving": config.serving.model_copy(update={"model_port": free_port(), "status_port": free_port()}),
            "recipe_cache_dir": str(tmp_path / "recipes"),
        }
    )
    with runtime_process(tmp_path, config) as runtime:
        ready = runtime.follow(Phase.SERVING)[-1]
        assert (ready.prompt.captured, ready.decode.captured) == (ready.prompt.planned, ready.decode.planned)
        requests = mixed_requests(LENGTH, REQUESTS)
        send_requests(runtime.model_url, config.model.served_names[0], requests)
        wait_until(lambda: count_tokens(runtime.report()) >= sum(each.tokens for each in requests))
        report = runtime.report()
        assert min(report.served.prompt.hits, report.served.decode.hits) > 0
        assert (report.cold_shapes, report.recompiles_since_ready) == ((), 0)
