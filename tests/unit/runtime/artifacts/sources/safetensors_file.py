"""Safetensors files of bytes, written by hand."""

import json


def safetensors(tensors: dict[str, bytes]) -> bytes:
    """A whole file with `tensors` of type U8."""
    header, end = {}, 0
    for name, content in tensors.items():
        header[name] = {"dtype": "U8", "shape": [len(content)], "data_offsets": [end, end + len(content)]}
        end += len(content)
    return with_header(json.dumps(header).encode(), b"".join(tensors.values()))


def with_header(header: bytes, content: bytes = b"") -> bytes:
    """A file that begins with `header`, whatever it says."""
    return len(header).to_bytes(8, "little") + header + content
