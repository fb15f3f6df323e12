"""The runtime container: image, arguments, environment, resources, ports, probes and security context.

If pods share recipes or send traces, the container also has a variable with the name of its revision.
The user's containers in the same pod have the same security context, but the operator gives them no secrets.
"""

from gaudi_operator.api.base import dump_api_model
from gaudi_operator.api.v1alpha1.accelerator import CARD_RESOURCE
from gaudi_operator.api.v1alpha1.inference_class import Capability
from gaudi_operator.api.v1alpha1.model import PullPolicy
from gaudi_operator.api.v1alpha1.pods.containers import EnvVar, SideContainer
from gaudi_operator.api.v1alpha1.pods.pod import Pod
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.api.v1alpha1.tracing import TraceReceiver, Tracing
from gaudi_operator.core.inference import Inference
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.names import CARDS_VARIABLE, CONTAINER, NO_CARDS, REVISION_LABEL
from gaudi_operator.core.rendering.metadata import Object
from gaudi_operator.core.rendering.pod_volumes import (
    TEMPORARY_PATH,
    hub_repositories,
    runtime_volume_mounts,
    user_volume_mount,
)
from gaudi_operator.core.rendering.runtime_config import runs_on_cpu, runtime_config
from gaudi_runtime.contract.config import EngineName, ServingConfig
from gaudi_runtime.contract.ports import (
    API_KEY_VARIABLE,
    CACHE_PATH,
    CONFIG_PATH,
    FETCH_PATH,
    LIVEZ_PATH,
    MODEL_PORT_NAME,
    POD_VARIABLE,
    READYZ_PATH,
    RECIPE_PATH,
    REVISION_VARIABLE,
    STATUS_PORT_NAME,
)
from gaudi_runtime.knobs.render import render_engine_options
from gaudi_runtime.trace_collector import ENDPOINT_VARIABLE, PROTOCOL_VARIABLE

PROBE_TIMEOUT_SECONDS = 5
"""The timeout of probes. A status port may be slow to answer while the machine compiles."""


def runtime_container(inference: Inference, defaults: InstallationDefaults) -> Object:
    """Return the runtime container, which serves the model."""
    spec, serving_config = inference.spec, ServingConfig()
    return {
        "name": CONTAINER,
        "image": resolve_container_image(spec, defaults),
        "imagePullPolicy": _resolve_pull_policy(spec, defaults).value,
        "args": ["serve", "--config", CONFIG_PATH],
        # Do not use the image's working directory. If the directory belongs to root, the container may not start, and
        # profilers and graph dumps cannot write to it.
        "workingDir": TEMPORARY_PATH,
        "env": _environment_variables(inference, defaults),
        "resources": _resources(spec),
        "ports": [
            {"name": MODEL_PORT_NAME, "containerPort": serving_config.model_port, "protocol": "TCP"},
            {"name": STATUS_PORT_NAME, "containerPort": serving_config.status_port, "protocol": "TCP"},
        ],
        # Probe every second. Otherwise a warm pod would wait longer for its first request.
        "readinessProbe": _probe(READYZ_PATH, period_seconds=1, failure_threshold=3),
        # The runtime checks its own progress, so a failing /livez needs a restart. Allow six failures, because a busy
        # machine may answer late.
        "livenessProbe": _probe(LIVEZ_PATH, period_seconds=10, failure_threshold=6),
        "lifecycle": {"preStop": {"exec": {"command": ["gaudi-runtime", "prestop"]}}},
        "volumeMounts": runtime_volume_mounts(spec),
        "securityContext": _security_context(*defaults.capabilities),
        # If native code crashes, the container writes no termination message. The kubelet then uses the last log lines
        # as the message.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _security_context(*capabilities: Capability) -> Object:
    """Return the security context of a container. The pod template sets the other fields (pod_template.py)."""
    added = [capability.value for capability in capabilities]
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], **({"add": added} if added else {})},
    }


def side_containers(pod: Pod) -> list[Object]:
    """Return the user's containers in the order of their start: first init containers, then sidecars."""
    return [
        *map(_side_container, pod.init_containers),
        *({**_side_container(sidecar), "restartPolicy": "Always"} for sidecar in pod.sidecars),
    ]


def _side_container(container: SideContainer) -> Object:
    manifest = container.model_dump(mode="json", by_alias=True)
    return {
        "imagePullPolicy": PullPolicy.IF_NOT_PRESENT.value,
        **manifest,
        "env": _env_without_cards(manifest.get("env") or []),
        "volumeMounts": [user_volume_mount(mount) for mount in container.volume_mounts],
        "securityContext": _security_context(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _env_without_cards(env: object) -> object:
    """Return the environment of a container that must not use cards.

    Intel's container runtime gives a container the cards that this variable lists. Images may also set the variable.
    Users may set the variable only if their class permits it. The API server refuses an `env` of another type.
    """
    if not isinstance(env, list) or any(isinstance(each, dict) and each.get("name") == CARDS_VARIABLE for each in env):
        return env
    return [{"name": CARDS_VARIABLE, "value": NO_CARDS}, *env]


def resolve_container_image(spec: GaudiInferenceSpec, defaults: InstallationDefaults) -> str:
    """Return the runtime image that the spec names, or the installation's default image for the type of device."""
    default = defaults.runtime_image if runs_on_cpu(spec.accelerator) else defaults.hpu_image
    return spec.server.image or default


def _resolve_pull_policy(spec: GaudiInferenceSpec, defaults: InstallationDefaults) -> PullPolicy:
    """Return the pull policy of the spec or its class, or the policy of the installation."""
    return spec.server.image_pull_policy or defaults.image_pull_policy


def _environment_variables(inference: Inference, defaults: InstallationDefaults) -> list[Object]:
    """Return the variables of the operator, the engine's knobs and the user. Later variables replace earlier ones.

    Knobs are set in the RuntimeConfig and also as variables, because the software of the device reads the variables
    when a process starts.
    """
    values = {**_folder_variables(inference.spec), **_offline_variables(inference.spec), **_engine_variables(inference)}
    variables = {name: {"name": name, "value": value} for name, value in values.items()}
    return list(
        {
            **variables,
            **_secret_variables(inference.spec),
            **({REVISION_VARIABLE: _REVISION_VARIABLE} if inference.spec.recipe_cache else {}),
            **_tracing_variables(inference, defaults.tracing),
            **{variable.name: _dump_variable(variable) for variable in inference.spec.engine.env},
        }.values()
    )


def _engine_variables(inference: Inference) -> dict[str, str]:
    """Return the knobs without paths in a fetched model. The runtime sets these when it knows the commit."""
    env = render_engine_options(runtime_config(inference)).env
    return {name: value for name, value in env.items() if not value.startswith(f"{FETCH_PATH}/")}


def _dump_variable(variable: EnvVar) -> Object:
    return variable.model_dump(mode="json", by_alias=True, exclude_none=True)


def _folder_variables(spec: GaudiInferenceSpec) -> dict[str, str]:
    """Return variables that name writable folders. The root file system is read-only, and the user has no home."""
    device_variables = (
        {CARDS_VARIABLE: NO_CARDS}
        if runs_on_cpu(spec.accelerator)
        else {"HABANA_LOGS": f"{TEMPORARY_PATH}/habana_logs"}
    )
    vllm_variables = {"VLLM_CACHE_ROOT": f"{CACHE_PATH}/vllm", "VLLM_NO_USAGE_STATS": "1"}
    return {
        "HOME": TEMPORARY_PATH,
        "TMPDIR": TEMPORARY_PATH,
        "USER": "gaudi",
        "XDG_CACHE_HOME": CACHE_PATH,
        "HF_HOME": f"{CACHE_PATH}/huggingface",
        "TORCHINDUCTOR_CACHE_DIR": f"{RECIPE_PATH}/inductor",
        **device_variables,
        **(vllm_variables if spec.engine.name is EngineName.VLLM else {}),
    }


def _offline_variables(spec: GaudiInferenceSpec) -> dict[str, str]:
    """Return variables that prevent libraries from connecting to the hub, unless the runtime fetches a model."""
    return {} if hub_repositories(spec.model) else {"HF_HUB_OFFLINE": "1"}


def _secret_variables(spec: GaudiInferenceSpec) -> dict[str, Object]:
    """Return the hub's access token and the API key as references to Secrets, so that manifests contain no values."""
    secrets = {"HF_TOKEN": spec.model.token_secret_ref, API_KEY_VARIABLE: spec.server.api_key_secret_ref}
    return {
        name: {"name": name, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": secret.key}}}
        for name, secret in secrets.items()
        if secret
    }


def _probe(path: str, period_seconds: int, failure_threshold: int) -> Object:
    return {
        "httpGet": {"path": path, "port": STATUS_PORT_NAME, "scheme": "HTTP"},
        "periodSeconds": period_seconds,
        "timeoutSeconds": PROBE_TIMEOUT_SECONDS,
        "failureThreshold": failure_threshold,
    }


def _resources(spec: GaudiInferenceSpec) -> Object:
    accelerator = spec.accelerator
    devices = {"hugepages-2Mi": accelerator.hugepages} if accelerator.hugepages else {}
    if not runs_on_cpu(accelerator) and not accelerator.resource_claim_template_name:
        devices[CARD_RESOURCE] = str(spec.parallelism.ranks_per_pod)
    limits = {**dump_api_model(spec.pod.resources.limits), **devices}
    requests = {**dump_api_model(spec.pod.resources.requests), **devices}
    # Kubernetes rejects hugepages in a container that requests neither CPU nor memory. A CPU limit is also a CPU
    # request.
    if accelerator.hugepages and "cpu" not in limits:
        requests.setdefault("cpu", "1")
    resources: Object = {"limits": limits, "requests": requests}
    if accelerator.resource_claim_template_name:
        resources["claims"] = [{"name": "cards"}]
    return {key: value for key, value in resources.items() if value}


_REVISION_VARIABLE: Object = {
    "name": REVISION_VARIABLE,
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{REVISION_LABEL}']"}},
}
"""The variable with the name of the revision, which the container reads from the label of its pod."""


def _tracing_variables(inference: Inference, receiver: TraceReceiver | None) -> dict[str, Object]:
    """Return OpenTelemetry variables, which the runtime and vLLM read, or no variables without a receiver.

    The order of the variables matters, because later variables refer to earlier variables.
    """
    if receiver is None:
        return {}
    owner, tracing = inference.identity, inference.spec.tracing or Tracing()
    percent = receiver.sampling_percent if tracing.sampling_percent is None else tracing.sampling_percent
    service_attributes = f"service.namespace={owner.namespace},service.version=$({REVISION_VARIABLE})"
    pod_attributes = f"k8s.namespace.name={owner.namespace},k8s.pod.name=$({POD_VARIABLE})"
    values = {
        ENDPOINT_VARIABLE: receiver.collector.endpoint,
        PROTOCOL_VARIABLE: receiver.collector.protocol,
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": f"{percent / 100:g}",
        "OTEL_SERVICE_NAME": owner.name,
        "OTEL_RESOURCE_ATTRIBUTES": f"{service_attributes},{pod_attributes}",
    }
    return {
        REVISION_VARIABLE: _REVISION_VARIABLE,
        POD_VARIABLE: {"name": POD_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        **{name: {"name": name, "value": value} for name, value in values.items()},
    }


OWN_VARIABLES = frozenset(
    {
        "HOME",
        "TMPDIR",
        "USER",
        "XDG_CACHE_HOME",
        "HF_HOME",
        "TORCHINDUCTOR_CACHE_DIR",
        "HABANA_LOGS",
        CARDS_VARIABLE,
        "VLLM_CACHE_ROOT",
        "VLLM_NO_USAGE_STATS",
        "HF_HUB_OFFLINE",
        "HF_TOKEN",
        API_KEY_VARIABLE,
        REVISION_VARIABLE,
        POD_VARIABLE,
        ENDPOINT_VARIABLE,
        PROTOCOL_VARIABLE,
        "OTEL_TRACES_SAMPLER",
        "OTEL_TRACES_SAMPLER_ARG",
        "OTEL_SERVICE_NAME",
        "OTEL_RESOURCE_ATTRIBUTES",
    }
)
"""The variables that the operator sets for the runtime, without the knobs of the engine."""
