"""Metrics of the chunks of one request."""

from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from gaudi_runtime.engine_protocol.engine import SamplingParams, TokenEngine
from gaudi_runtime.http.metrics import RequestMetrics
from gaudi_runtime.http.openai_api.generation import Choice, Generation, Usage
from tests.unit.runtime.configs import sim_config
from tests.unit.runtime.serving import Served, served


async def test_time_to_first_token_is_from_arrival_to_first_tokens(api: Served) -> None:
    registry, seconds = CollectorRegistry(), iter([10.0, 12.5])
    choices = [Choice(0, [97, 98], SamplingParams(max_tokens=2), echo_text="ab")]
    generation = Generation(
        cast("TokenEngine", api.engine), choices, Usage(2), RequestMetrics(registry), lambda: next(seconds)
    )
    texts = [chunk.text async for _, chunk in generation.stream_pieces()]
    assert "".join(texts) == "abab"
    assert registry.get_sample_value("gaudi_time_to_first_token_seconds_sum") == 2.5


async def test_failure_of_one_choice_ends_the_waiting_choices() -> None:
    async with served(sim_config({"failAtToken": 2}, max_num_seqs=1)) as api:
        choices = [Choice(index, [97, 98, 99], SamplingParams(max_tokens=3)) for index in range(3)]
        metrics = RequestMetrics(CollectorRegistry())
        generation = Generation(cast("TokenEngine", api.engine), choices, Usage(3), metrics)
        with pytest.raises(RuntimeError, match="failAtToken=2"):
            _ = [piece async for piece in generation.stream_pieces()]
        load = api.engine.current_load()
    assert (load.running, load.waiting) == (0, 0)
