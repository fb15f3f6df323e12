"""Problems of pods that wait for PersistentVolumeClaims, with the fields of the spec that name the claims."""

import re

from gaudi_operator.core.problems.criteria import ProblemCriteria
from gaudi_operator.core.problems.spec_fields import claim_fields

_VOLUME_WORDS = (
    *("persistentvolume", "persistent volume", "volume node affinity", "volume zone", "volume count"),
    *("free storage", "non-existent pv"),
)
"""Words of the scheduler's messages about volumes. It reports volumes only in its message, not as a reason."""

_QUOTED = re.compile(r'persistentvolumeclaim "([^"]+)"')
_UNBOUND = "unbound immediate"


def mentions_volume_claims(message: str) -> bool:
    """Return True if the scheduler's message is about volumes."""
    return any(word in message.lower() for word in _VOLUME_WORDS)


def explain_unbound_claims(pod: str, message: str, criteria: ProblemCriteria) -> str:
    """Return sentences about a pod that waits for a volume: the claims, the fields that name them, and the remedy."""
    claims = _awaited_claims(message, criteria)
    summary = f"Pod {pod} waits for {_describe_claims(claims)}: {message}"
    if len(claims) == 1 and f'"{next(iter(claims))}" not found' in message:
        return f"{summary} Create the claim in this namespace, or correct the field."
    if not claims:
        return f"{summary} Check the volumes of `kubectl describe pod {pod}`."
    subject, possessive, verb_suffix = ("it", "its", "s") if len(claims) == 1 else ("they", "their", "")
    return (
        f"{summary} Check that {subject} exist{verb_suffix} in this namespace, that {possessive} storage class can "
        "provide the volume, and that the volume is reachable from a node with cards. "
        f"`kubectl describe pvc {' '.join(claims)}` shows the events."
    )


def _awaited_claims(message: str, criteria: ProblemCriteria) -> dict[str, str]:
    """Return the claims that a pod may wait for, with their fields.

    These are the claims that the message quotes or, without quoted names, all claims that may be unbound.
    """
    claims = claim_fields(criteria.template, criteria.resource)
    if quoted := [claim for claim in _QUOTED.findall(message) if claim in claims]:
        return {claim: claims[claim] for claim in quoted}
    if _UNBOUND in message:
        return {claim: field for claim, field in claims.items() if claim not in criteria.bound_claims} or claims
    return claims


def _describe_claims(claims: dict[str, str]) -> str:
    if not claims:
        return "a volume"
    descriptions = [f"{claim} ({field})" for claim, field in claims.items()]
    if len(descriptions) == 1:
        return f"PersistentVolumeClaim {descriptions[0]}"
    return f"one of the PersistentVolumeClaims {', '.join(descriptions[:-1])} and {descriptions[-1]}"


def advise_on_claim_mounts(criteria: ProblemCriteria) -> str:
    """Return the advice for a pod whose node cannot mount its claims, or an empty text if the pod mounts no claim."""
    claims = claim_fields(criteria.template, criteria.resource)
    if not claims:
        return ""
    return (
        f" The pod mounts {_describe_claims(claims).removeprefix('one of ')}. A ReadWriteOnce PVC serves only the pods "
        "of one node. Use ReadWriteMany, or select one node with spec.pod.nodeSelector."
    )
