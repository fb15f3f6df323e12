"""The violations of a class in trial (`spec.trial`), which are only reported (docs/how-to/classes.md)."""

from pydantic import ValidationError

from gaudi_operator.core.admission.pod_view import PodTemplateView
from gaudi_operator.core.admission.revision_limits import revision_limit_violations
from gaudi_operator.core.admission.spec_limits import spec_limit_violations
from gaudi_operator.core.classes import ResolvedClass
from gaudi_operator.core.resource import Inference
from gaudi_operator.core.rollout.revision import Revision


def trial_violations(inference: Inference, revision: Revision, platform: ResolvedClass) -> tuple[str, ...]:
    """Return the violations that the class will refuse after its trial, or () if the class is not in trial."""
    if platform.spec is None or not platform.spec.trial:
        return ()
    try:
        views = [PodTemplateView.model_validate(template) for template in revision.templates]
    except ValidationError:
        return ()  # pod_policy.py refuses its template
    spec, limits = inference.spec, platform.spec.limits
    pod_violations = revision_limit_violations(spec, revision, views, limits, inference.identity.name)
    spec_violations = ((violation.field, violation.reason) for violation in spec_limit_violations(spec, limits))
    # A leader and its workers exceed the same limits. Remove the duplicate messages.
    return tuple(dict.fromkeys(f"{spec_field} {reason}" for spec_field, reason in (*pod_violations, *spec_violations)))
