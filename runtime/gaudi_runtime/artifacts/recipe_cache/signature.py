"""Whether a manifest of recipes is signed: ECDSA over P-256 and SHA-256, in DER and base64.

That is what `cosign sign-blob --key` writes, and `openssl dgst -sha256 -sign` with base64 behind it. A manifest names
all of its files by their checksums, so its signature is theirs.
"""

import binascii
from base64 import b64decode

from gaudi_runtime.artifacts.recipe_cache.manifest import EntryUnusable

MAX_SIGNATURE_BYTES = 4096


def check_signature(manifest: bytes, signature: bytes, public_key: str) -> None:
    """Raises EntryUnusable unless `signature` is that of `manifest` by the holder of `public_key`, in PEM."""
    # Only here: who names no key needs no library for it.
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(public_key.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise EntryUnusable("publicKey is no public key in PEM") from error
    if not (isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1)):
        raise EntryUnusable("publicKey is of another kind than ECDSA over P-256")
    try:
        key.verify(b64decode(b"".join(signature.split()), validate=True), manifest, ECDSA(SHA256()))
    except (InvalidSignature, binascii.Error) as error:
        raise EntryUnusable("its manifest.sig is no signature of its manifest by publicKey") from error
