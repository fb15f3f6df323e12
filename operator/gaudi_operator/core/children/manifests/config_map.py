"""The ConfigMap of a RuntimeConfig: named by its content and immutable, so no pod ever sees it change."""

from posixpath import basename

from gaudi_operator.core.children.manifests.metadata import Object, child
from gaudi_operator.core.notation import short_hash
from gaudi_operator.core.resource import Identity
from gaudi_runtime.contract.ports import CONFIG_PATH


def config_map_name(owner: Identity, config: str) -> str:
    """`<resource>-<hash of the content>`. `config` is a RuntimeConfig as JSON text."""
    return f"{owner.name}-{short_hash(config)}"


def config_map(owner: Identity, config: str) -> Object:
    """The immutable ConfigMap with `config` (a RuntimeConfig as JSON text) under the key config.json.

    It bears no revision's label: revisions that differ in the pod only share it.
    """
    body: Object = {"immutable": True, "data": {basename(CONFIG_PATH): config}}
    return child("v1", "ConfigMap", config_map_name(owner, config), owner, body)
