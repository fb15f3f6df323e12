"""Safetensors files built from bytes."""

import json


def safetensors(tensors: dict[str, bytes]) -> bytes:
    """Return a complete file with `tensors` of type U8."""
    header, end = {}, 0
    for name, content in tensors.items():
        header[name] = {"dtype": "U8", "shape": [len(content)], "data_offsets": [end, end + len(content)]}
        end += len(content)
    return with_header(json.dumps(header).encode(), b"".join(tensors.values()))


def with_header(header: bytes, content: bytes = b"") -> bytes:
    """Return a file that begins with `header`. The header may be invalid."""
    return len(header).to_bytes(8, "little") + header + content
