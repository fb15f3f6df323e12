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
    if platform.says is None or not platform.says.trial:
        return ()
    try:
        views = [PodTemplateView.model_validate(each) for each in revision.templates]
    except ValidationError:
        return ()  # pod_policy.py refuses its template
    spec, limits = inference.spec, platform.says.limits
    of_pods = revision_limit_violations(spec, revision, views, limits, inference.identity.name)
    of_spec = ((each.where, each.why) for each in spec_limit_violations(spec, limits))
    # A leader and its workers exceed the same limits. Remove the duplicate messages.
    return tuple(dict.fromkeys(f"{where} {why}" for where, why in (*of_pods, *of_spec)))
