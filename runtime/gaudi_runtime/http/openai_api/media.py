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
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
"""The formats of images whose header has the decoded size, and which Pillow opens without decoding them.

Pillow decodes an ICO while it opens the file. An ICNS or a TIFF of 16x16 pixels may decode to more than 1 GiB.
"""
MEDIA_FIELDS = frozenset({"image_url", "video_url", "images", "source"})


def pixel_limit(environment: Mapping[str, str] = os.environ) -> int:
    """Return the most pixels that the images of one request may have together; 0 if there is no limit."""
    value = environment.get(PIXELS_VARIABLE, "")
    return max(0, int(value) if value.strip("-").isdecimal() else MOST_PIXELS) * IMAGES


def restrict_formats() -> None:
    """Make every `Image.open` in this process, such as vLLM's, read only FORMATS."""
    from PIL import Image  # a requirement of vLLM, which pods of the sim engine do not need

    Image.init()  # otherwise the first unknown image would add all formats again
    Image.ID[:] = FORMATS


def check_media(document: Any, max_pixels: int) -> None:
    """Raise InvalidRequest if an image in `document` has another format, or all have more than `max_pixels` pixels."""
    total_pixels = 0
    for media_count, (data, is_image) in enumerate(_find_media(document), start=1):
        if media_count > MOST_MEDIA:
            raise InvalidRequest(f"The request has more than {MOST_MEDIA} images, frames and clips. Send fewer.")
        pixels = _count_pixels(data)
        if is_image and not pixels:
            raise InvalidRequest(
                f"An image of the request has none of these formats: {', '.join(FORMATS)}. Convert the image to PNG."
            )
        total_pixels += pixels
        if total_pixels > max_pixels:
            raise InvalidRequest(
                f"The images of the request have more than {max_pixels} pixels in total. Send fewer or smaller images."
            )


def _find_media(document: Any) -> Iterator[tuple[str, bool]]:
    """Yield the base64 texts of images and videos, and whether each must be an image.

    Only these fields are read by vLLM: `image_url`, `video_url`, `images` (Cohere) and `source` (Anthropic).
    """
    pending_values = [document]
    while pending_values:
        value = pending_values.pop()
        if isinstance(value, dict):
            for name in MEDIA_FIELDS & value.keys():
                for data in _read_data(value[name]):
                    yield data, name != "video_url"
            pending_values += value.values()
        elif isinstance(value, list):
            pending_values += value


def _read_data(media: Any) -> Iterator[str]:
    if isinstance(media, dict):
        if isinstance(media.get("data"), str):
            yield media["data"]
        media = media.get("url")
    for url in media if isinstance(media, list) else [media]:
        if isinstance(url, str) and url[:5].lower() == "data:":
            # The data of a video may be frames with commas between them. Counting stops above the limit.
            yield from url.split(",", MOST_MEDIA + 2)[1:]


def _count_pixels(data: str) -> int:
    """Return the pixels of an image; 0 for other data, such as a video."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            width, height = Image.open(BytesIO(a2b_base64(data)), formats=FORMATS).size
    except Image.DecompressionBombError as error:
        raise InvalidRequest("An image of the request is too large. Send a smaller one.") from error
    except (NotBase64, ValueError, OSError, SyntaxError, OverflowError, MemoryError):
        return 0
    return width * height
