"""Problems of pods that wait for PersistentVolumeClaims, with the fields of the spec that name the claims."""

import re

from gaudi_operator.core.problems.criteria import Criteria
from gaudi_operator.core.problems.spec_fields import claim_fields

_VOLUME_WORDS = (
    *("persistentvolume", "persistent volume", "volume node affinity", "volume zone", "volume count"),
    *("free storage", "non-existent pv"),
)
"""Words of the scheduler's messages about volumes. It reports volumes only in its message, not as a reason."""

_QUOTED = re.compile(r'persistentvolumeclaim "([^"]+)"')
_UNBOUND = "unbound immediate"


def mentions_volumes(said: str) -> bool:
    """Return True if the scheduler's message is about volumes."""
    return any(word in said.lower() for word in _VOLUME_WORDS)


def explain_unbound_claims(pod: str, said: str, criteria: Criteria) -> str:
    """Return sentences about a pod that waits for a volume: the claims, the fields that name them, and the remedy."""
    claims = _awaited_claims(said, criteria)
    found = f"Pod {pod} waits for {_describe_claims(claims)}: {said}"
    if len(claims) == 1 and f'"{next(iter(claims))}" not found' in said:
        return f"{found} Create the claim in this namespace, or correct the field."
    if not claims:
        return f"{found} Check the volumes of `kubectl describe pod {pod}`."
    subject, its, ends = ("it", "its", "s") if len(claims) == 1 else ("they", "their", "")
    return (
        f"{found} Check that {subject} exist{ends} in this namespace, that {its} storage class can provide the "
        f"volume, and that the volume is reachable from a node with cards. `kubectl describe pvc {' '.join(claims)}` "
        "shows the events."
    )


def _awaited_claims(said: str, criteria: Criteria) -> dict[str, str]:
    """Return the claims that a pod may wait for, with their fields.

    These are the claims that the message quotes or, without quoted names, all claims that may be unbound.
    """
    claims = claim_fields(criteria.template, criteria.resource)
    if quoted := [each for each in _QUOTED.findall(said) if each in claims]:
        return {each: claims[each] for each in quoted}
    if _UNBOUND in said:
        return {each: field for each, field in claims.items() if each not in criteria.bound_claims} or claims
    return claims


def _describe_claims(claims: dict[str, str]) -> str:
    if not claims:
        return "a volume"
    named = [f"{claim} ({field})" for claim, field in claims.items()]
    if len(named) == 1:
        return f"PersistentVolumeClaim {named[0]}"
    return f"one of the PersistentVolumeClaims {', '.join(named[:-1])} and {named[-1]}"


def advise_on_claim_mounts(criteria: Criteria) -> str:
    """Return the advice for a pod whose node cannot mount its claims, or an empty text if the pod mounts no claim."""
    claims = claim_fields(criteria.template, criteria.resource)
    if not claims:
        return ""
    return (
        f" The pod mounts {_describe_claims(claims).removeprefix('one of ')}. A ReadWriteOnce PVC serves only the pods "
        "of one node. Use ReadWriteMany, or select one node with spec.pod.nodeSelector."
    )
