"""RuntimeConfigs of the sim engine for tests, on free ports."""

import itertools
import os
import socket
from contextlib import suppress
from typing import Any

from gaudi_runtime.contract.bucketing import (
    BucketingRangeSettings,
    BucketPolicy,
    DecodeRanges,
    Limits,
    PromptRanges,
    Strategy,
)
from gaudi_runtime.contract.config import (
    EngineConfig,
    EngineName,
    ExecutionMode,
    ModelConfig,
    RuntimeConfig,
    ServingConfig,
    WarmupConfig,
)

GIB = 1024**3


_BEFORE = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 8
PORTS = range(10_000 + 2_500 * _BEFORE, 12_500 + 2_500 * _BEFORE)
"""Ports below Linux's ephemeral range, reserved for this test process. They stay free until a server binds them."""

_numbers = itertools.count(os.getpid() * 101)  # Concurrent test processes start at different ports.


def free_port() -> int:
    """Return a free port that this process has not returned recently."""
    for number in _numbers:
        port = PORTS[number % len(PORTS)]
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("", port))
            return port
    raise AssertionError("the numbers have no end")


def linear(step: int, largest: int) -> BucketingRangeSettings:
    """Return a range from `step` to `largest`."""
    return BucketingRangeSettings(min=step, step=step, max=largest)


def sim_config(
    script: dict[str, Any] | None = None,
    *,
    mode: ExecutionMode = ExecutionMode.HPU_GRAPHS,
    warmup: WarmupConfig | None = None,
    serving: dict[str, Any] | None = None,
    **limits: Any,
) -> RuntimeConfig:
    """Return a configuration with four prompt buckets (128 to 512 tokens) and a few decode buckets."""
    ports = {"model_port": free_port(), "status_port": free_port(), "drain_seconds": 20}
    return RuntimeConfig(
        model=ModelConfig(path="/models", served_names=("echo", "echo-alias")),
        engine=EngineConfig(name=EngineName.SIM, execution_mode=mode, sim_script=script or {}),
        limits=Limits(
            **{"max_model_len": 512, "max_num_seqs": 4, "max_num_batched_tokens": 512, "block_size": 128} | limits
        ),
        bucketing=BucketPolicy(
            strategy=Strategy.LINEAR,
            prompt=PromptRanges(batch_size=linear(1, 1), query=linear(128, 512)),
            decode=DecodeRanges(batch_size=linear(2, 4), blocks=linear(8, 16)),
        ),
        warmup=warmup or WarmupConfig(),
        serving=ServingConfig(**ports | (serving or {})),
    )
