"""The resources whose objects each release records (tests/data/releases).

Together, the resources set every kind of field.
"""

from tests.support.builders import Object, gaudi_inference, minimal_gaudi_inference
from tests.support.metrics import BEHAVIOR, METRICS

CHANGED = {"engine": {"maxNumSeqs": 8}}
"""Patches that create a second revision of some of them."""


def resources() -> list[Object]:
    """Return the resources: one with only defaults, one with every other field, and one for each special case."""
    return [
        minimal_gaudi_inference("defaults"),
        gaudi_inference(
            "figures",
            engine={"deviceMemoryUtilizationPercent": 85, "settings": {"VLLM_GRAPH_PROMPT_RATIO": "0.4"}},
            warmup={"graphMemoryPercent": 13, "stallTimeoutSeconds": 900},
            readiness={"minCapturedPromptPercent": 90},
            replicas=2,
        ),
        gaudi_inference(
            "given-defaults", engine={"deviceMemoryUtilizationPercent": 90}, warmup={"graphMemoryPercent": 10}
        ),
        gaudi_inference("history", replicas=2, networkAccess=CLIENTS, recipeCache={}),
        gaudi_inference("everything", **EVERYTHING),
        gaudi_inference("autoscaled", autoscaling={"maxReplicas": 3}),
        gaudi_inference("card", **CARD),
        gaudi_inference("inline", bucketing={"strategy": "File", "file": FILE, "gaps": "Allow"}),
        gaudi_inference("traffic", bucketing={"strategy": "Optimal", "optimal": {"traffic": TRAFFIC}}),
        gaudi_inference(
            "simulated",
            engine={"name": "sim", "settings": {"compileSeconds": "0.01"}},
            bucketing={"prompt": {"query": {"min": 16, "max": 128}}},
        ),
    ]


CLIENTS = {
    "from": "Clients",
    "clients": [
        {
            "namespaceSelector": {"matchLabels": {"team": "chat"}},
            "podSelector": {"matchLabels": {"app": "gateway"}},
        },
        {"podSelector": {"matchLabels": {"app": "worker"}}},
        {"ipBlock": {"cidr": "10.0.0.0/8"}},
    ],
}
FILE = "(1, 16, 0)\n(1, 32, 0)\n(4, 1, 8)"
TRAFFIC = "prompt 1 100 0 5\nprompt 1 200 0 2\ndecode 2 1 20 9"
EVERYTHING: Object = {
    "model": {
        "source": {
            "persistentVolumeClaim": None,
            "huggingFace": {"repo": "tiny/llama"},
        },
        "tokenSecretRef": {"name": "hub", "key": "token"},
        "cache": {"existingClaim": "models"},
        "servedNames": ["tiny", "small"],
        "dtype": "float32",
    },
    "engine": {
        "executionMode": "TorchCompile",
        "maxNumPrefillSeqs": 2,
        "settings": {"OMP_NUM_THREADS": 2, "VLLM_GRAPH_PROMPT_STRATEGY": "max_bs"},
        "env": [
            {"name": "PLAIN", "value": "yes"},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "more", "key": "one"}}},
        ],
    },
    "server": {"maxQueuedRequests": 10, "apiKeySecretRef": {"name": "keys", "key": "api"}},
    "warmup": {"timeBudgetSeconds": 600},
    "rollout": {"type": "Surge", "maxSurge": "50%", "canary": {"observeSeconds": 1}},
    "autoscaling": {"maxReplicas": 3, "metrics": METRICS, "behavior": BEHAVIOR},
    "service": {"port": 8080, "annotations": {"team": "chat"}},
    "pod": {
        "labels": {"team": "chat"},
        "annotations": {"note": "kept"},
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "gaudi", "operator": "Exists", "effect": "NoSchedule"}],
        "imagePullSecrets": [{"name": "pull"}],
        "resources": {"requests": {"cpu": 2, "memory": "2Gi"}, "limits": {"memory": "4Gi", "ephemeral-storage": "9Gi"}},
        "sharedMemorySize": "1Gi",
        "runAsUser": 1000,
        "drainSeconds": 10,
    },
}
CARD: Object = {
    "model": {
        "source": {"persistentVolumeClaim": None, "ociImage": {"reference": "registry.test/models/llama:1"}},
        "maxModelLen": 1024,
        "lora": {
            "adapters": [{"name": "sql", "source": {"persistentVolumeClaim": {"claimName": "adapters", "path": "sql"}}}]
        },
        "quantization": {"method": "fp8"},
    },
    "accelerator": {"generation": "gaudi3", "deviceMemory": None, "hugepages": "1Gi"},
    "parallelism": {"tensor": 2},
    "engine": {
        "name": "vllm",
        "blockSize": 128,
        "maxNumSeqs": 16,
        "prefixCaching": True,
        "settings": {"VLLM_DEFRAG_THRESHOLD": "32", "VLLM_FULL_WARMUP": "true"},
        "extraArgs": ["--of-a-plugin=1"],
    },
    "bucketing": {"strategy": "Linear", "prompt": {"query": {"min": 128, "step": 128, "max": 1024}}},
}
