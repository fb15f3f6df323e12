"""All objects that the API server must refuse."""

from tests.cluster.bad_blocks import scaled
from tests.cluster.bad_models import ACCELERATORS, MODELS, NAMES, VLLM_LIMITS
from tests.cluster.bad_object import Bad
from tests.cluster.bad_pods import PLATFORM_PODS, SEVERAL_NODES
from tests.cluster.bad_recipes import RECIPES
from tests.support.metrics import running_requests

ENGINES = (
    Bad("engine_unknown", 'Unsupported value: "tgi": supported values: "vllm"', {"engine": {"name": "tgi"}}),
    Bad("block_size_is_text", "blockSize in body must be of type integer", {"engine": {"blockSize": "16"}}),
    Bad("block_size_is_a_boolean", "blockSize in body must be of type int32", {"engine": {"blockSize": True}}),
    Bad("boolean_is_text", "chunkedPrefill in body must be of type boolean", {"engine": {"chunkedPrefill": "true"}}),
    Bad("boolean_is_a_number", "chunkedPrefill in body must be of type boolean", {"engine": {"chunkedPrefill": 1}}),
    Bad("block_size_zero", "blockSize in body should be greater than or equal to 1", {"engine": {"blockSize": 0}}),
    Bad("block_over_model_len", "blockSize must be at most model.maxModelLen", {"engine": {"blockSize": 512}}),
    Bad(
        "more_prefill_than_decode_sequences",
        "maxNumPrefillSeqs must be at most maxNumSeqs",
        {"engine": {"maxNumSeqs": 4, "maxNumPrefillSeqs": 5}},
    ),
    Bad(
        "batch_smaller_than_a_block",
        "maxNumBatchedTokens must be at least blockSize",
        {"engine": {"maxNumBatchedTokens": 8}},
    ),
    Bad(
        "utilization_zero",
        "deviceMemoryUtilizationPercent in body should be greater than or equal to 1",
        {"engine": {"deviceMemoryUtilizationPercent": 0}},
    ),
    Bad(
        "utilization_over_one",
        "deviceMemoryUtilizationPercent in body should be less than or equal to 100",
        {"engine": {"deviceMemoryUtilizationPercent": 150}},
    ),
    Bad(
        "hpu_graphs_on_cpu",
        "executionMode must be TorchCompile or Eager",
        {"engine": {"executionMode": "HpuGraphs"}},
    ),
    Bad(
        "extra_args_with_sim",
        "extraArgs is only for the vllm engine",
        {"engine": {"name": "sim", "extraArgs": ["--seed=1"]}},
    ),
    Bad(
        "setting_with_a_space",
        "every name must be",
        {"engine": {"settings": {"skip warmup": "1"}}},
    ),
    Bad("setting_is_a_boolean", "must be of type", {"engine": {"settings": {"VLLM_DEBUG": True}}}),
    Bad(
        "setting_too_long", "spec.engine.settings.UCX_TLS: Too long", {"engine": {"settings": {"UCX_TLS": "a" * 1025}}}
    ),
    Bad("variable_without_value", "value or valueFrom", {"engine": {"env": [{"name": "A"}]}}),
    Bad(
        "variable_with_two_values",
        "value or valueFrom",
        {"engine": {"env": [{"name": "A", "value": "1", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}},
    ),
    Bad(
        "variable_twice",
        'Duplicate value: {"name":"A"}',
        {"engine": {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}},
    ),
    Bad("field_unknown", 'unknown field "spec.engine.blocksize"', {"engine": {"blocksize": 16}}),
)
BUCKETS = (
    Bad("strategy_unknown", 'Unsupported value: "random"', {"bucketing": {"strategy": "random"}}),
    Bad("strategy_not_offered", 'Unsupported value: "unified"', {"bucketing": {"strategy": "unified"}}),
    Bad(
        "file_strategy_without_file",
        "spec.bucketing must set file with strategy File",
        {"bucketing": {"strategy": "File"}},
    ),
    Bad(
        "file_with_another_strategy",
        "spec.bucketing must set file with strategy File",
        {"bucketing": {"file": "(1, 128, 0)"}},
    ),
    Bad(
        "budget_with_another_strategy",
        "spec.bucketing.optimal is only for strategy Optimal",
        {"bucketing": {"optimal": {}}},
    ),
    Bad(
        "optimal_with_two_budgets",
        "spec.bucketing.optimal must set only one",
        {
            "bucketing": {
                "strategy": "Optimal",
                "optimal": {"traffic": "prompt 1 9 0 1", "promptGraphs": 4, "graphMemory": 9},
            }
        },
    ),
    Bad(
        "range_min_above_max",
        "min must be at most max",
        {"bucketing": {"strategy": "Linear", "decode": {"blocks": {"min": 8, "max": 4}}}},
    ),
    Bad(
        "padding_limits_with_linear",
        "spec.bucketing.paddingAware is only for strategy PaddingAware",
        {"bucketing": {"strategy": "Linear", "paddingAware": {}}},
    ),
    Bad(
        "padding_over_fifty_percent",
        "maxPaddingPercent in body should be less than or equal to 50",
        {"bucketing": {"strategy": "PaddingAware", "paddingAware": {"maxPaddingPercent": 51}}},
    ),
    Bad("gaps_unknown", 'supported values: "Refuse", "Allow"', {"bucketing": {"gaps": "True"}}),
    Bad(
        "memory_for_graphs_zero",
        "spec.bucketing.optimal.graphMemory must be from 1 to 1Pi",
        {"bucketing": {"strategy": "Optimal", "optimal": {"graphMemory": "0"}}},
    ),
    Bad(
        "memory_for_graphs_of_two_pebibytes",
        "spec.bucketing.optimal.graphMemory must be from 1 to 1Pi",
        {"bucketing": {"strategy": "Optimal", "optimal": {"graphMemory": "2Pi"}}},
    ),
    Bad(
        "context_without_prefix_caching",
        "spec.bucketing.prompt.context requires",
        {"bucketing": {"strategy": "Linear", "prompt": {"context": {"max": 4}}}, "engine": {"chunkedPrefill": False}},
    ),
)
WARMUPS = (
    Bad(
        "graph_memory_of_hundred_percent",
        "should be less than or equal to 99",
        {"warmup": {"graphMemoryPercent": 100}},
    ),
    Bad(
        "graphs_without_memory",
        "spec.warmup.graphMemoryPercent must be above 0",
        {"warmup": {"graphMemoryPercent": 0}, "readiness": {"minCapturedDecodePercent": 100}},
    ),
    Bad("percent_over_hundred", "less than or equal to 100", {"readiness": {"minCapturedPromptPercent": 101}}),
    Bad("percent_is_text", "must be of type integer", {"readiness": {"minCapturedDecodePercent": "90%"}}),
    Bad("shortfall_unknown", 'supported values: "Block", "ServeAndWarn"', {"readiness": {"onShortfall": "BLOCK"}}),
    Bad("stall_timeout_zero", "should be greater than or equal to 1", {"warmup": {"stallTimeoutSeconds": 0}}),
)


ROLLOUTS = (
    Bad("replicas_negative", "spec.replicas in body should be greater than or equal to 0", {"replicas": -1}),
    Bad("replicas_too_many", "spec.replicas in body should be less than or equal to 1000", {"replicas": 1001}),
    Bad(
        "no_surge",
        "spec.rollout.maxSurge must be above 0",
        {"rollout": {"maxSurge": "0%"}},
    ),
    Bad(
        "no_unavailable_and_replaced_in_place",
        "maxUnavailable cannot be 0 with type InPlace",
        {"rollout": {"maxUnavailable": 0, "type": "InPlace"}},
    ),
    Bad(
        "rollout_type_in_lower_case",
        'supported values: "Surge", "SurgeThenInPlace", "InPlace"',
        {"rollout": {"type": "surge"}},
    ),
    Bad("surge_timeout_zero", "should be greater than or equal to 1", {"rollout": {"surgeTimeoutSeconds": 0}}),
    Bad("deadline_zero", "should be greater than or equal to 1", {"rollout": {"obstacleDeadlineSeconds": 0}}),
    Bad("surge_without_percent_sign", "spec.rollout.maxSurge in body should match", {"rollout": {"maxSurge": "25"}}),
    Bad("surge_over_hundred_percent", "spec.rollout.maxSurge in body should match", {"rollout": {"maxSurge": "101%"}}),
)


AUTOSCALERS = (
    Bad(
        "autoscaling_min_above_max",
        "minReplicas must be at most maxReplicas",
        scaled(minReplicas=3),
    ),
    Bad("autoscaling_without_max", "maxReplicas: Required value", {"autoscaling": {"minReplicas": 1}}),
    Bad("autoscaling_from_zero", "minReplicas in body should be greater than or equal to 1", scaled(minReplicas=0)),
    Bad("too_many_metrics", "must have at most 8 items", scaled(metrics=[running_requests(1)] * 9)),
    Bad(
        "target_of_an_earlier_release",
        'unknown field "spec.autoscaling.targetRunningRequests"',
        scaled(targetRunningRequests=8),
    ),
)

NETWORKS = (
    Bad("port_zero", "spec.service.port in body should be greater than or equal to 1", {"service": {"port": 0}}),
    Bad("service_external_name", 'Unsupported value: "ExternalName"', {"service": {"type": "ExternalName"}}),
    Bad(
        "clients_with_everyone",
        "spec.networkAccess.clients must be set if from is Clients, and only then",
        {"networkAccess": {"from": "Everyone", "clients": [{"podSelector": {"matchLabels": {"app": "a"}}}]}},
    ),
    Bad(
        "clients_left_out",
        "spec.networkAccess.clients must be set if from is Clients, and only then",
        {"networkAccess": {"from": "Clients"}},
    ),
    Bad(
        "published_without_clients",
        "spec.service.type other than ClusterIP needs another networkAccess.from",
        {"service": {"type": "NodePort"}, "server": {"apiKeySecretRef": {"name": "a", "key": "b"}}},
    ),
)
PODS = (
    Bad(
        "label_of_the_operator",
        "they are reserved for the operator",
        {"pod": {"labels": {"inference.gaudi.dev/name": "x"}}},
    ),
    Bad("label_key_with_space", "every key must be", {"pod": {"labels": {"a b": "x"}}}),
    Bad("label_value_with_slash", "should match", {"pod": {"labels": {"app": "a/b"}}}),
    Bad("user_is_root", "spec.pod.runAsUser in body should be greater than or equal to 1", {"pod": {"runAsUser": 0}}),
    Bad(
        "cpu_is_no_quantity",
        "spec.pod.resources.requests.cpu in body should match",
        {"pod": {"resources": {"requests": {"cpu": "four"}}}},
    ),
    Bad(
        "toleration_exists_with_value",
        "value must be left out when operator is Exists",
        {"pod": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}},
        path="spec.pod.tolerations[0]: ",
    ),
    Bad(
        "toleration_equal_without_key",
        "key is needed when operator is Equal",
        {"pod": {"tolerations": [{"value": "b"}]}},
        path="spec.pod.tolerations[0]: ",
    ),
    Bad(
        "toleration_seconds_with_no_schedule",
        "tolerationSeconds is only for effect NoExecute",
        {"pod": {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}]}},
        path="spec.pod.tolerations[0]: ",
    ),
    Bad("pull_secret_as_text", "must be of type object", {"pod": {"imagePullSecrets": ["registry"]}}),
    Bad("pod_field_not_allowed", 'unknown field "spec.pod.hostNetwork"', {"pod": {"hostNetwork": True}}),
)

TRACES = (
    Bad(
        "sampling_over_hundred_percent",
        "tracing.samplingPercent in body should be less than or equal to 100",
        {"tracing": {"samplingPercent": 101}},
    ),
)

BAD_OBJECTS = (
    *NAMES,
    *MODELS,
    *VLLM_LIMITS,
    *ACCELERATORS,
    *ENGINES,
    *BUCKETS,
    *WARMUPS,
    *RECIPES,
    *TRACES,
    *ROLLOUTS,
    *AUTOSCALERS,
    *NETWORKS,
    *PODS,
    *PLATFORM_PODS,
    *SEVERAL_NODES,
)
