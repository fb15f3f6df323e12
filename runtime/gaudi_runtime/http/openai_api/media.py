"""How much the images of a request decode to, read from their headers before anything is decoded.

vLLM bounds the pixels of each image alone, and a file of 20 KB can have as many as it allows.
"""

import os
import warnings
from binascii import Error as NotBase64
from binascii import a2b_base64
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any

from gaudi_runtime.http.openai_api.errors import InvalidRequest

PIXELS_VARIABLE = "VLLM_MAX_IMAGE_PIXELS"
MOST_PIXELS = 4096 * 4096
"""Of one image, where PIXELS_VARIABLE is not set: above what any model sees without scaling it down."""
IMAGES = 4
"""A request may decode to as many pixels as so many of the largest images; this is also 32 frames of 1920x1080."""
MOST_MEDIA = 256
"""Images, frames and clips of one request whose headers are read."""


def most_pixels(environment: Mapping[str, str] = os.environ) -> int:
    """The most pixels of one request; 0 if they are not bounded."""
    value = environment.get(PIXELS_VARIABLE, "")
    return max(0, int(value) if value.strip("-").isdecimal() else MOST_PIXELS) * IMAGES


def check_media(document: Any, most: int) -> None:
    """Raise InvalidRequest if the images in `document` have more than `most` pixels together."""
    pixels = 0
    for found, data in enumerate(_media(document), start=1):
        if found > MOST_MEDIA:
            raise InvalidRequest(f"The request has more than {MOST_MEDIA} images, frames and clips; send fewer.")
        pixels += _pixels(data)
        if pixels > most:
            raise InvalidRequest(
                f"The images of the request have more than {most} pixels together; send fewer or smaller ones."
            )


def _media(document: Any) -> Iterator[str]:
    """The base64 texts of data: URLs, and of sources as Anthropic's API writes them."""
    left = [document]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if value.get("type") == "base64" and isinstance(value.get("data"), str):
                yield value["data"]
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif isinstance(value, str) and value[:5].lower() == "data:":
            # A video may be frames with commas between; more of them than may be is as bad as any number.
            yield from value.split(",", MOST_MEDIA + 2)[1:]


def _pixels(data: str) -> int:
    """The pixels of an image; 0 for what is none, which vLLM refuses with its own message, or reads as sound."""
    from PIL import Image  # part of vLLM's image, and not of the built-in engines'

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            width, height = Image.open(BytesIO(a2b_base64(data))).size
    except Image.DecompressionBombError as error:
        raise InvalidRequest("An image of the request is too large; send a smaller one.") from error
    except (NotBase64, ValueError, OSError, SyntaxError, OverflowError, MemoryError):
        return 0
    return width * height
