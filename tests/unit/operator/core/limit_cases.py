"""Specs beyond class limits and specs within them."""

from typing import Any

from tests.unit.operator.core.resources import CARD

SIDECAR: dict[str, Any] = {"name": "log", "image": "docker.io/log:1"}
HUB: dict[str, Any] = {"source": {"persistentVolumeClaim": None, "huggingFace": {"repo": "a/b"}}}
FOLDER: dict[str, Any] = {"source": {"persistentVolumeClaim": None, "hostPath": {"path": "/models/a"}}}
VLLM: dict[str, Any] = {"name": "vllm"}
KEY = {"apiKeySecretRef": {"name": "keys", "key": "api"}}
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"

DNS = "external-dns.alpha.kubernetes.io/hostname"
LOAD_BALANCER = {"type": "LoadBalancer"}
RANGE = {"from": "Clients", "clients": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}
_EXISTS = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists"}]}
_NAMED = {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]}

BEYOND: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"images": ["registry.test/"]}, {"server": {"image": "docker.io/x"}}, "spec.server.image docker.io/x "),
    ({"images": ["runtime"]}, {"pod": {"sidecars": [SIDECAR]}}, "spec.pod.sidecars log: image docker.io/log:1 "),
    (
        {"images": ["runtime"]},
        {"model": {"source": {"persistentVolumeClaim": None, "ociImage": {"reference": "docker.io/model:1"}}}},
        "spec.model.source.ociImage docker.io/model:1 ",
    ),
    (
        {"images": ["runtime"]},
        {"pod": {"volumes": [{"name": "a", "image": {"reference": "docker.io/a:1"}}]}},
        "spec.pod.volumes a: image docker.io/a:1 ",
    ),
    ({"hostPaths": ["/data"]}, {"model": FOLDER}, "spec.model.source.hostPath /models/a "),
    (
        {"hostPaths": ["/data"]},
        {"pod": {"volumes": [{"name": "a", "hostPath": {"path": "/models/a"}}]}},
        "spec.pod.volumes a: hostPath /models/a ",
    ),
    ({"runtimeClasses": []}, {"pod": {"runtimeClassName": "kata"}}, "spec.pod.runtimeClassName kata "),
    ({"serviceAccounts": ["a"]}, {"pod": {"serviceAccountName": "b"}}, "spec.pod.serviceAccountName b "),
    ({"serviceAccounts": ["team"]}, {"pod": {"serviceAccountName": "team-b"}}, "spec.pod.serviceAccountName team-b "),
    (
        {"nodeSelector": {"pool": "a"}},
        {"pod": {"nodeSelector": {"pool": "b"}}},
        'spec.pod.nodeSelector must contain pool: "a" ',
    ),
    ({"nodeSelector": {"pool": "a"}}, {}, 'spec.pod.nodeSelector must contain pool: "a" '),
    (
        {"tolerations": ["gaudi"]},
        {"pod": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}},
        "spec.pod.tolerations gpu ",
    ),
    ({"environmentVariables": ["HF_*"]}, {"engine": {"env": [{"name": "A", "value": "b"}]}}, "spec.engine.env A "),
    ({"environmentVariables": ["AB"]}, {"engine": {"env": [{"name": "ABC", "value": "b"}]}}, "spec.engine.env ABC "),
    (
        {"environmentVariables": ["HF_*"]},
        {"engine": {"env": [{"name": "HOME", "value": "/x"}]}},
        "spec.engine.env HOME ",
    ),
    ({"annotationPrefixes": ["team/"]}, {"pod": {"annotations": {"a/b": "c"}}}, "spec.pod.annotations a/b "),
    (
        {"extraArguments": ["--seed"]},
        {"engine": {**VLLM, "extraArgs": ["--of-a-plugin", "1"]}},
        "spec.engine.extraArgs --of-a-plugin ",
    ),
    (
        {"trustRemoteCode": False},
        {"engine": {**VLLM, "settings": {"--trust-remote-code": "true"}}},
        "spec.engine.settings --trust-remote-code ",
    ),
    *(
        (
            {"trustRemoteCode": False},
            {"engine": {**VLLM, "settings": {name: "/etc/code"}}},
            f"spec.engine.settings {name} is not allowed ",
        )
        for name in ("--tool-parser-plugin", "--reasoning-parser-plugin", "GC_KERNEL_PATH", "HABANA_PLUGINS_LIB_PATH")
    ),
    ({"modelSources": ["OciImage"]}, {"model": HUB}, "spec.model.source.huggingFace "),
    (
        {"modelSources": ["PersistentVolumeClaim"]},
        {
            "engine": VLLM,
            "model": {"lora": {"adapters": [{"name": "sql", "source": {"huggingFace": {"repo": "a/b"}}}]}},
        },
        "spec.model.lora.adapters.source.huggingFace ",
    ),
    ({"apiKeyRequired": True}, {}, "spec.server.apiKeySecretRef "),
    ({"maxReplicas": 0}, {}, "spec.replicas 1 is above 0 "),
    (
        {"maxCards": 7},
        {"engine": VLLM, "accelerator": CARD, "parallelism": {"tensor": 2, "data": 4}},
        "spec.parallelism: a replica needs 8 cards, which is above 7 ",
    ),
    (
        {"maxCards": 7},
        {"pod": {"initContainers": [{**SIDECAR, "resources": {"limits": {"habana.ai/gaudi": 8}}}]}},
        "spec.parallelism: a replica needs 8 cards, which is above 7 ",
    ),
    *(
        ({"allowAllClients": False}, {"networkAccess": access}, "spec.networkAccess lets every namespace reach ")
        for access in (
            {"from": "Everyone"},
            {"from": "Unmanaged"},
            {"from": "Clients", "clients": [{"namespaceSelector": {}}]},
            {"from": "Clients", "clients": [{"namespaceSelector": _EXISTS, "podSelector": {}}]},
            {"from": "Clients", "clients": [{"podSelector": {}}, {"ipBlock": {"cidr": "128.0.0.0/1"}}]},
            {"from": "Clients", "clients": [{"ipBlock": {"cidr": "::/0"}}]},
        )
    ),
    ({"serviceTypes": []}, {"service": LOAD_BALANCER, "networkAccess": RANGE}, "spec.service.type LoadBalancer "),
    (
        {"serviceAnnotationPrefixes": ["team/", "shop/"]},
        {"service": {"annotations": {"team/a": "b", DNS: "shop.example.com"}}},
        f"spec.service.annotations {DNS} ",
    ),
    (
        {"maxRecipeCacheSize": "100Gi"},
        {"recipeCache": {"size": "0.2Ti"}},
        "spec.recipeCache.size 0.2Ti is above 100Gi ",
    ),
    ({"maxRecipeCacheSize": "1Gi"}, {"recipeCache": {}}, "spec.recipeCache.size 20Gi is above 1Gi "),
    ({"maxSurge": 2}, {"rollout": {"maxSurge": 3}}, "spec.rollout.maxSurge 3 is above 2 "),
    ({"maxSurge": 2}, {"replicas": 9, "rollout": {"maxSurge": "25%"}}, "spec.rollout.maxSurge 3 is above 2 "),
    (
        {"maxSurge": 2},
        {
            "rollout": {"maxSurge": "25%"},
            "autoscaling": {"minReplicas": 1, "maxReplicas": 12},
        },
        "spec.rollout.maxSurge 3 is above 2 ",
    ),
    (
        {"maxStallTimeoutSeconds": 3600},
        {"warmup": {"stallTimeoutSeconds": 604_800}},
        "spec.warmup.stallTimeoutSeconds 604800 is above 3600 ",
    ),
    (
        {"maxCards": 1},
        {"engine": VLLM, "accelerator": {**CARD, "resourceClaimTemplateName": "eight-cards"}},
        "spec.accelerator.resourceClaimTemplateName eight-cards may request any number of cards",
    ),
]
"""Limits, a spec that is refused, and how the operator's message starts."""

LIMITED: list[tuple[dict[str, Any], dict[str, Any], str, int]] = [
    ({"maxReplicas": 2}, {"replicas": 3}, "spec.replicas 3 is above 2 (limits.maxReplicas)", 2),
    (
        {"maxReplicas": 2},
        {"replicas": 2, "autoscaling": {"minReplicas": 1, "maxReplicas": 4}},
        "spec.autoscaling.maxReplicas 4 is above 2 (limits.maxReplicas)",
        2,
    ),
    (
        {"maxCards": 8},
        {"replicas": 3, "engine": VLLM, "accelerator": CARD, "parallelism": {"tensor": 4}},
        "spec.replicas 3 is above 2 (limits.maxCards)",
        2,
    ),
    (
        {"maxCards": 8},
        {"replicas": 2, "engine": VLLM, "accelerator": CARD, "parallelism": {"tensor": 2, "data": 4}},
        "spec.replicas 2 is above 1 (limits.maxCards)",
        1,
    ),
]
"""Limits, a spec that requests more replicas, the description of the excess, and the replicas that run."""

WITHIN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"images": ["runtime"]}, {}),
    ({"hostPaths": ["/models"]}, {"model": FOLDER}),
    ({"serviceAccounts": []}, {}),
    ({"priorityClasses": ["system-node-critical"]}, {"pod": {"priorityClassName": "system-node-critical"}}),
    ({"tolerations": [CONTROL_PLANE]}, {"pod": {"tolerations": [{"key": CONTROL_PLANE, "operator": "Exists"}]}}),
    ({"annotationPrefixes": [SAFE_TO_EVICT]}, {"pod": {"annotations": {SAFE_TO_EVICT: "false"}}}),
    ({"environmentVariables": ["PYTHON*"]}, {"engine": {"env": [{"name": "PYTHONHASHSEED", "value": "0"}]}}),
    ({"environmentVariables": ["AB"]}, {"engine": {"env": [{"name": "AB", "value": "0"}]}}),
    ({"environmentVariables": []}, {"engine": {**VLLM, "settings": {"OMP_NUM_THREADS": "2"}}}),
    ({"extraArguments": ["--of-a-plugin"]}, {"engine": {**VLLM, "extraArgs": ["--of-a-plugin=1"]}}),
    ({"trustRemoteCode": False}, {"engine": {**VLLM, "settings": {"--trust-remote-code": "false"}}}),
    ({"apiKeyRequired": True}, {"server": KEY}),
    ({"maxCards": 0}, {"replicas": 3}),
    (
        {"allowAllClients": False},
        {"networkAccess": {"from": "Clients", "clients": [{"namespaceSelector": _NAMED}, *RANGE["clients"]]}},
    ),
    ({"allowAllClients": True}, {"networkAccess": {"from": "Everyone"}}),
    ({"allowAllClients": True}, {"networkAccess": {"from": "Unmanaged"}}),
    ({"maxReplicas": 0}, {"replicas": 0}),
    ({"serviceTypes": []}, {"service": {"type": "ClusterIP"}}),
    ({"serviceTypes": ["LoadBalancer"]}, {"service": LOAD_BALANCER, "networkAccess": RANGE}),
    ({"serviceAnnotationPrefixes": ["external-dns."]}, {"service": {"annotations": {DNS: "shop.example.com"}}}),
    ({"maxRecipeCacheSize": "20Gi"}, {"recipeCache": {"size": "20480Mi"}}),
    ({"maxRecipeCacheSize": "1Gi"}, {"recipeCache": {"existingClaim": "shared", "size": "1Ti"}}),
    ({"maxSurge": 2}, {"replicas": 8, "rollout": {"maxSurge": "25%"}}),
    ({"maxSurge": 1, "maxStallTimeoutSeconds": 1800}, {}),
    ({"maxReplicas": 1}, {"engine": VLLM, "accelerator": {**CARD, "resourceClaimTemplateName": "eight-cards"}}),
    ({"maxReplicas": 3, "modelSources": ["PersistentVolumeClaim"]}, {"replicas": 3}),
]
"""Limits, and a spec within them."""

_AFFINITY = {"nodeSelectorTerms": [{"matchExpressions": [{"key": CONTROL_PLANE, "operator": "Exists"}]}]}
NEEDS_PERMISSION: list[tuple[str, Any, dict[str, Any], str]] = [
    (
        "annotationPrefixes",
        [SAFE_TO_EVICT],
        {"pod": {"annotations": {SAFE_TO_EVICT: "false"}}},
        f"spec.pod.annotations {SAFE_TO_EVICT} controls how the pod runs or connects (limits.annotationPrefixes)",
    ),
    (
        "annotationPrefixes",
        ["io.kata"],
        {"pod": {"annotations": {"io.katacontainers.config": "a"}}},
        "spec.pod.annotations io.katacontainers.config controls how the pod runs or connects "
        "(limits.annotationPrefixes)",
    ),
    (
        "priorityClasses",
        ["system-node-critical"],
        {"pod": {"priorityClassName": "system-node-critical"}},
        "spec.pod.priorityClassName system-node-critical is reserved for the cluster, whose components it could evict"
        " (limits.priorityClasses)",
    ),
    *(
        (
            "tolerations",
            [CONTROL_PLANE],
            {"pod": pod},
            f"spec.pod.{field} {CONTROL_PLANE} allows nodes of the control plane (limits.tolerations)",
        )
        for field, pod in (
            ("tolerations", {"tolerations": [{"key": CONTROL_PLANE, "operator": "Exists"}]}),
            ("nodeSelector", {"nodeSelector": {CONTROL_PLANE: ""}}),
            (
                "affinity",
                {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _AFFINITY}}},
            ),
        )
    ),
    (
        "environmentVariables",
        ["LD_*"],
        {"engine": {"env": [{"name": "LD_PRELOAD", "value": "/x.so"}]}},
        "spec.engine.env LD_PRELOAD loads code or selects cards (limits.environmentVariables)",
    ),
    (
        "environmentVariables",
        ["PYTHONPATH"],
        {"pod": {"sidecars": [{**SIDECAR, "env": [{"name": "PYTHONPATH", "value": "/x"}]}]}},
        "spec.pod.sidecars log: env PYTHONPATH loads code or selects cards (limits.environmentVariables)",
    ),
    (
        "allowAllClients",
        True,
        {"networkAccess": {"from": "Everyone"}},
        "spec.networkAccess lets every namespace reach the model port (limits.allowAllClients)",
    ),
]
"""A limit, its value that gives permission, a spec that needs the permission, and how the message starts."""
