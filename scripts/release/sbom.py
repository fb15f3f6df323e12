"""The pinned packages of an image or a command as CycloneDX 1.6, with their hashes.

Debian's packages are not included, because their versions are determined when the image is built.
"""

import json
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from scripts.release.pins import Pin

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "inference.gaudi.dev")


def sbom(product: str, version: str, pins: Sequence[Pin], time: int) -> str:
    """Return the document. The same inputs give the same text. `time` is the time of the tagged commit in seconds."""
    components = [_component(pin) for pin in sorted(pins, key=lambda pin: pin.name)]
    product_ref = f"{product}@{version}"
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, json.dumps([product_ref, components]))}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": product_ref,
                "name": product,
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": components,
        "dependencies": [{"ref": product_ref, "dependsOn": [component["bom-ref"] for component in components]}],
    }
    return json.dumps(document, indent=1) + "\n"


def _component(pin: Pin) -> dict[str, Any]:
    """Return the component of a pin, with a reference to each platform's file and its hash."""
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
                "hashes": [{"alg": "SHA-256", "content": digest} for digest in sorted(pin.hashes)],
            }
        ],
    }
