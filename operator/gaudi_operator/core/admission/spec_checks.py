"""The admission checks: ordered functions, each of which finds one fault. The first violation is reported.

The API server refuses other faults by the CEL rules of the fields. These checks need data that CEL rules cannot read,
such as the installation. The bucket policy has a check of its own (core/bucket_policy_check.py).

A spec that is refused here can never work. A spec that passes may still fall short, which only a pod can find.
"""

from dataclasses import replace

from gaudi_operator.api.v1alpha1.network import PUBLISHED, AccessFrom, ServiceType
from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.admission.engine_settings import (
    check_engine_settings,
    check_speculation_settings,
    max_engine_kv_blocks,
    min_engine_memory,
)
from gaudi_operator.core.admission.pod_policy import PodPolicy
from gaudi_operator.core.inference import Inference, cache_on_inference
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.observed import Observed
from gaudi_operator.core.quantities import MOST_MEMORY, format_memory_quantity, parse_byte_quantity
from gaudi_operator.core.rendering.container import resolve_container_image
from gaudi_operator.core.rendering.pod_volumes import shared_memory_volume_size
from gaudi_operator.core.rendering.runtime_config import runs_on_cpu
from gaudi_operator.core.rollout.revision import Revision
from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.errors import Checks, Problem


def _check_simulation_allowed(inference: Inference, defaults: InstallationDefaults) -> Problem | None:
    """Check that the installation allows the sim engine, which answers without a model."""
    if inference.spec.engine.name is not EngineName.SIM or defaults.allow_simulation:
        return None
    return Problem(
        "SimulationNotAllowed",
        "spec.engine.name: sim is not allowed by this installation, because the sim engine answers without a model. "
        "Use vllm, or install the operator with allowSimulation.",
    )


def check_published_access(spec: GaudiInferenceSpec) -> Problem | None:
    """Check that a new revision is published only with an API key or a list of clients.

    The API server refuses new objects without them. An object that was created before this rule keeps its revision.
    """
    protected = spec.server.api_key_secret_ref or spec.network_access.access_from is AccessFrom.CLIENTS
    if spec.service.type is ServiceType.CLUSTER_IP or protected:
        return None
    return Problem("PublishedWithoutKey", f"{PUBLISHED}.")


def check_revision_allowed(revision: Revision, policy: PodPolicy, defaults: InstallationDefaults) -> Problem | None:
    """Check that the installation still allows a stored revision."""
    if revision.is_simulated and not defaults.allow_simulation:
        return Problem(
            "SimulationNotAllowed",
            f"Revision {revision.name} has the sim engine, which this installation does not allow. The operator "
            "creates no more pods of this revision. Change the spec, or install the operator with allowSimulation.",
        )
    violation = policy.find_violation(revision)
    if violation is None:
        return None
    return replace(
        violation,
        message=f"The operator creates no more pods of revision {revision.name}: {violation.message} To run "
        "another revision, change the spec.",
    )


def _check_fields_implemented(inference: Inference, _: InstallationDefaults) -> Problem | None:
    """Check that a spec sets no field that the API defines but this release does not implement.

    Such fields are refused, because ignoring them would hide the fault.
    """
    message = next((f"{path}{advice}" for path, advice, used in _unimplemented_fields(inference.spec) if used), None)
    return None if message is None else Problem("NotBuilt", message)


def _unimplemented_fields(spec: GaudiInferenceSpec) -> tuple[tuple[str, str, bool], ...]:
    base_advice = " is not implemented in this release"
    sim_advice = " is not implemented for the sim engine. Remove the field, or use engine vllm."
    is_simulated = spec.engine.name is EngineName.SIM
    parallelism, side_containers = spec.parallelism, (*spec.pod.init_containers, *spec.pod.sidecars)
    on_card = spec.engine.name is EngineName.VLLM and not runs_on_cpu(spec.accelerator)
    return (
        (
            "spec.parallelism.nodes above 1 for engine vllm on a card",
            f"{base_advice}, because it is untested. Set nodes to 1, or use accelerator.generation: none.",
            on_card and parallelism.nodes > 1,
        ),
        (
            "spec.parallelism.pipeline above 1 for engine vllm on a card",
            " does not exist in vLLM's plugin for Gaudi. Use spec.parallelism.tensor instead.",
            on_card and parallelism.pipeline > 1,
        ),
        (
            "spec.parallelism.data above 1 over several nodes with engine vllm",
            f"{base_advice}. Use tensor or pipeline instead, or raise spec.replicas.",
            spec.engine.name is EngineName.VLLM and parallelism.nodes > 1 and parallelism.data > 1,
        ),
        ("spec.model.quantization", sim_advice, is_simulated and spec.model.quantization is not None),
        ("spec.model.lora.adapters", sim_advice, is_simulated and bool(spec.model.lora.adapters)),
        (
            "securityContext in spec.pod.initContainers and spec.pod.sidecars",
            " is not allowed, because the operator sets the security context. Remove the field.",
            any("securityContext" in (each.model_extra or {}) for each in side_containers),
        ),
    )


def _check_image_known(inference: Inference, defaults: InstallationDefaults) -> Problem | None:
    """Check that a spec names an image, or that the installation has a default image for its device."""
    if resolve_container_image(inference.spec, defaults):
        return None
    kind = "the CPU" if runs_on_cpu(inference.spec.accelerator) else "cards"
    return Problem(
        "NoRuntimeImage",
        f"spec.server.image is left out, but this installation has no default image for {kind}. Set spec.server.image.",
    )


def _check_device_memory(inference: Inference, _: InstallationDefaults) -> Problem | None:
    """Check that the device memory of a spec has room for one KV block and is not larger than that of any device.

    A larger amount probably has a wrong unit.
    """
    spec, memory = inference.spec, inference.spec.accelerator.device_memory
    if memory is not None and parse_byte_quantity(memory) > MOST_MEMORY:
        return Problem(
            "PlanImpossible",
            f"spec.accelerator.deviceMemory {memory} is above 1Ei, but no device has that much memory. Lower the "
            "value.",
        )
    if max_engine_kv_blocks(spec) < 1:
        return Problem(
            "PlanImpossible",
            f"spec.accelerator.deviceMemory {memory} is too small for a single KV block. Raise deviceMemory to "
            f"{format_memory_quantity(min_engine_memory(spec))}, or lower spec.engine.blockSize or "
            "spec.warmup.graphMemoryPercent.",
        )
    return None


def check_shared_memory(inference: Inference, _: InstallationDefaults) -> Problem | None:
    """Check that the container's memory limit is larger than /dev/shm, whose size counts against the limit."""
    memory_limit, shared_memory = inference.spec.pod.resources.limits.memory, shared_memory_volume_size(inference.spec)
    if memory_limit is None or parse_byte_quantity(memory_limit) > parse_byte_quantity(shared_memory):
        return None
    return Problem(
        "MemoryTooSmall",
        f"spec.pod.resources.limits.memory {memory_limit} must be above {shared_memory}, the size of /dev/shm, which "
        "counts as memory of the container. Raise the limit, or lower spec.pod.sharedMemorySize.",
    )


def check_groups_served(inference: Inference, observed: Observed) -> Problem | None:
    """Check that the cluster serves LeaderWorkerSets if a replica has several nodes."""
    if inference.spec.parallelism.nodes == 1 or observed.groups_served:
        return None
    return Problem(
        "LeaderWorkerSetMissing",
        f"spec.parallelism.nodes is {inference.spec.parallelism.nodes}, but this cluster has no LeaderWorkerSet API. "
        "Install the LeaderWorkerSet controller (lws.sigs.k8s.io), version 0.9 or newer. The operator detects the "
        "API within seconds.",
    )


@cache_on_inference
def first_spec_violation(inference: Inference, defaults: InstallationDefaults) -> Problem | None:
    """Return the first violation of a spec on an installation; None if it is accepted."""
    return _first_violation(inference, defaults)


_first_violation = Checks(
    _check_simulation_allowed,
    _check_fields_implemented,
    check_engine_settings,
    check_speculation_settings,
    _check_image_known,
    _check_device_memory,
    check_shared_memory,
)
