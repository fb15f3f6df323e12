"""What an image or a command is made of, as CycloneDX 1.6: the packages that are pinned for it, with their hashes.

Debian's packages below them are not named: which ones an image gets is decided when it is built.
"""

import json
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from scripts.release.pins import Pin

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "inference.gaudi.dev")


def sbom(product: str, version: str, pinned: Sequence[Pin], made: int) -> str:
    """The document. The same inputs give the same bytes; `made` is the time of the tagged commit in seconds."""
    components = [_component(each) for each in sorted(pinned, key=lambda each: each.name)]
    root = f"{product}@{version}"
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, json.dumps([root, components]))}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(made, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": product,
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": components,
        "dependencies": [{"ref": root, "dependsOn": [each["bom-ref"] for each in components]}],
    }
    return json.dumps(document, indent=1) + "\n"


def _component(pin: Pin) -> dict[str, Any]:
    """A pin has a hash for each platform: they are of its files, so each is a reference to one."""
    return {
        "type": "library",
        "bom-ref": pin.purl,
        "name": pin.name,
        "version": pin.version,
        "purl": pin.purl,
        "externalReferences": [
            {
                "type": "distribution",
                "url": pin.purl,
                "hashes": [{"alg": "SHA-256", "content": each} for each in sorted(pin.hashes)],
            }
        ],
    }
