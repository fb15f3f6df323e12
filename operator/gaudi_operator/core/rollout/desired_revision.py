"""The revision that the spec requests, which is a stored or new revision (docs/how-to/revisions.md)."""

from dataclasses import replace

from gaudi_operator.core.inference import Inference, cache_on_inference
from gaudi_operator.core.installation import InstallationDefaults
from gaudi_operator.core.rendering.pod_template import pod_template, worker_template
from gaudi_operator.core.rendering.runtime_config import config_map_name, runtime_config
from gaudi_operator.core.rollout.inputs import (
    revision_inputs,
    revision_name,
    serialize_inputs,
)
from gaudi_operator.core.rollout.revision import AppliedClassDefaults, PodGroup, Revision, newest_number
from gaudi_operator.core.text_formats import canonical_json
from gaudi_runtime.contract.config import ExecutionMode, plan_hash


def desired_revision(
    inference: Inference,
    stored: tuple[Revision, ...],
    defaults: InstallationDefaults,
    filled: Inference | None = None,
    class_defaults: AppliedClassDefaults | None = None,
) -> Revision:
    """Return the desired revision, which is a stored or new revision.

    A stored template is used unchanged even if this operator would render it differently, because only changed inputs
    may restart pods. `filled` is the resource with the defaults of its class (`class_defaults`), which `defaults`
    contains too. It is used only for rendering. The inputs come from the spec without these defaults.
    """
    # Compare the inputs, because names may differ between releases. A newer release hashes fields that an older release
    # does not have.
    for revision in stored:
        if revision.matches_spec(inference):
            return revision
    inputs = revision_inputs(inference)
    full_inference = filled or inference
    config = runtime_config(full_inference)
    text = canonical_json(config.model_dump(mode="json", by_alias=True, exclude_none=True))
    name = revision_name(inputs)
    plan_digest = plan_hash(config.bucketing, config.limits)
    template = pod_template(full_inference, name, plan_digest, config_map_name(inference.identity, text), defaults)
    # Render each revision only once. Later reconciles use the stored template.
    nodes = inference.spec.parallelism.nodes
    group = PodGroup(nodes, worker_template(template)) if nodes > 1 else None
    number = newest_number(stored) + 1
    return Revision(name, number, serialize_inputs(inputs), template, text, group=group, class_defaults=class_defaults)


def use_stored_mode(inference: Inference, stored: tuple[Revision, ...]) -> Inference:
    """Return the resource with the execution mode of the revision that matches its spec, if this revision is stored."""
    return _replace_mode(
        inference, next((revision.execution_mode for revision in stored if revision.matches_spec(inference)), None)
    )


@cache_on_inference
def _replace_mode(inference: Inference, mode: ExecutionMode | None) -> Inference:
    return replace(inference, stored_mode=mode)
