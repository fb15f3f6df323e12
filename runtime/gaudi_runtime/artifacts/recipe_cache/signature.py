"""Verification of the signature of a recipe manifest: ECDSA over P-256 and SHA-256, in DER and base64.

`cosign sign-blob --key` writes this form, and so does `openssl dgst -sha256 -sign` with base64. A manifest contains the
checksums of all its files, so its signature also covers the files.
"""

import binascii
from base64 import b64decode

from gaudi_runtime.artifacts.recipe_cache.manifest import EntryUnusable

MAX_SIGNATURE_BYTES = 4096


def check_signature(manifest: bytes, signature: bytes, public_key: str) -> None:
    """Raise EntryUnusable unless the holder of `public_key` (PEM) made `signature` for `manifest`."""
    # The library is imported here because only a start with a public key needs it.
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(public_key.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise EntryUnusable("publicKey is not a PEM public key") from error
    if not (isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1)):
        raise EntryUnusable("publicKey is not an ECDSA key with the curve P-256")
    try:
        key.verify(b64decode(b"".join(signature.split()), validate=True), manifest, ECDSA(SHA256()))
    except (InvalidSignature, binascii.Error) as error:
        raise EntryUnusable("the signature in manifest.sig is not valid for this manifest and publicKey") from error
