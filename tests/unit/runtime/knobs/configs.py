"""RuntimeConfigs for tests of knobs."""

from typing import Any

from gaudi_runtime.contract.config import RuntimeConfig


def vllm_config(**sections: Any) -> RuntimeConfig:
    """Return a configuration of vllm on one card. `sections`, in wire names, are merged one level deep."""
    document: dict[str, Any] = {
        "model": {"path": "/models", "servedNames": ["chat"]},
        "engine": {"name": "vllm", "executionMode": "hpuGraphs", "device": "hpu"},
        "limits": {"maxModelLen": 4096, "maxNumSeqs": 32, "maxNumBatchedTokens": 2048},
        "bucketing": {"strategy": "linear"},
    }
    for name, section in sections.items():
        document[name] = {**document.get(name, {}), **section}
    return RuntimeConfig.model_validate(document)
