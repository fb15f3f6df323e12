"""The ServiceAccount of the pods: an identity without rights and without a mounted token."""

from gaudi_operator.core.inference import Identity
from gaudi_operator.core.manifests.metadata import Object, child


def service_account(owner: Identity) -> Object:
    """The account that the pods use unless the resource names another."""
    return child("v1", "ServiceAccount", owner.name, owner, {"automountServiceAccountToken": False})
