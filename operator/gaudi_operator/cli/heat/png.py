"""A PNG file with a palette, by the specification's four chunks: header, palette, pixels, end."""

import struct
import zlib
from collections.abc import Sequence

from gaudi_operator.cli.heat.colours import Colour

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOST_COLOURS = 256
INDEXED, BITS = 3, 8


def png(rows: Sequence[bytes | bytearray], palette: Sequence[Colour]) -> bytes:
    """The file. Every row holds one palette index a pixel; all rows are of one length. At most 256 colours."""
    if len(palette) > MOST_COLOURS:
        raise ValueError(f"{len(palette)} colours, a palette has at most {MOST_COLOURS}")
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), BITS, INDEXED, 0, 0, 0)
    colours = b"".join(bytes(each) for each in palette)
    # Every row starts with its filter: 0, none.
    pixels = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows), 9)
    return (
        SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"PLTE", colours) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
