"""Deployments that several tests forecast."""

from dataclasses import replace
from typing import Any

from gaudi_runtime.catalog.models.known import known_shape
from gaudi_runtime.catalog.models.shape import ModelShape
from gaudi_runtime.contract.bucketing import Limits
from gaudi_runtime.contract.config import WarmupConfig
from gaudi_runtime.forecast.inputs import ForecastInputs
from tests.support.reference_logs import TWO_DIMENSIONAL, TWO_DIMENSIONAL_LIMITS

GIB = 2**30


def shape_of(repository: str) -> ModelShape:
    """Return the shape of a public model."""
    shape = known_shape(repository)
    assert shape is not None
    return shape


LLAMA = shape_of("meta-llama/Llama-3.1-8B")

LOGGED = ForecastInputs(
    policy=TWO_DIMENSIONAL,
    limits=TWO_DIMENSIONAL_LIMITS,
    warmup=WarmupConfig(graph_memory_share=0.4, prompt_ratio=0.3),
    utilization=0.5,
)
"""The deployment of log 000."""


def reference_with(**changes: Any) -> ForecastInputs:
    """Return the reference deployment with changes to its warm-up, its limits or other inputs."""
    warmup = {key: changes.pop(key) for key in list(changes) if key in WarmupConfig.model_fields}
    limits = {key: changes.pop(key) for key in list(changes) if key in Limits.model_fields}
    return replace(
        LOGGED,
        warmup=LOGGED.warmup.model_copy(update=warmup),
        limits=LOGGED.limits.model_copy(update=limits),
        **changes,
    )
