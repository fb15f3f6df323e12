"""The decoded size of a request's images, read from their headers before any image is decoded.

vLLM limits only the pixels of each image, and a file of 20 KB can already reach that limit.
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
"""The limit of one image if PIXELS_VARIABLE is not set: above the size to which any model scales images down."""
IMAGES = 4
"""A request may have as many pixels as this number of the largest images; that is also 32 frames of 1920x1080."""
MOST_MEDIA = 256
"""The most images, frames and clips of one request whose headers are read."""


def pixel_limit(environment: Mapping[str, str] = os.environ) -> int:
    """Return the most pixels that the images of one request may have together; 0 if there is no limit."""
    value = environment.get(PIXELS_VARIABLE, "")
    return max(0, int(value) if value.strip("-").isdecimal() else MOST_PIXELS) * IMAGES


def check_media(document: Any, max_pixels: int) -> None:
    """Raise InvalidRequest if the images in `document` have more than `max_pixels` pixels in total."""
    total_pixels = 0
    for media_count, data in enumerate(_find_media(document), start=1):
        if media_count > MOST_MEDIA:
            raise InvalidRequest(f"The request has more than {MOST_MEDIA} images, frames and clips. Send fewer.")
        total_pixels += _count_pixels(data)
        if total_pixels > max_pixels:
            raise InvalidRequest(
                f"The images of the request have more than {max_pixels} pixels in total. Send fewer or smaller images."
            )


def _find_media(document: Any) -> Iterator[str]:
    """Yield the base64 texts of `data:` URLs and of media sources in the form of Anthropic's API."""
    pending_values = [document]
    while pending_values:
        value = pending_values.pop()
        if isinstance(value, dict):
            if value.get("type") == "base64" and isinstance(value.get("data"), str):
                yield value["data"]
            pending_values += value.values()
        elif isinstance(value, list):
            pending_values += value
        elif isinstance(value, str) and value[:5].lower() == "data:":
            # The data of a video may be frames with commas between them. Counting stops above the limit.
            yield from value.split(",", MOST_MEDIA + 2)[1:]


def _count_pixels(data: str) -> int:
    """Return the pixels of an image; 0 for other data, which vLLM rejects with its own message or reads as audio."""
    from PIL import Image  # part of vLLM's image, but not of the built-in engines' image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            width, height = Image.open(BytesIO(a2b_base64(data))).size
    except Image.DecompressionBombError as error:
        raise InvalidRequest("An image of the request is too large. Send a smaller one.") from error
    except (NotBase64, ValueError, OSError, SyntaxError, OverflowError, MemoryError):
        return 0
    return width * height
