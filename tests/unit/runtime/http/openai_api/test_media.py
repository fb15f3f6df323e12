"""Limits on the formats and the decoded size of images in a request."""

import json
import subprocess
import sys
import threading
from base64 import b64encode
from io import BytesIO
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient
from PIL import Image
from prometheus_client import CollectorRegistry

from gaudi_runtime.http.metrics import RequestMetrics
from gaudi_runtime.http.openai_api.body import check_body
from gaudi_runtime.http.openai_api.errors import InvalidRequest
from gaudi_runtime.http.openai_api.guard import add_guard
from gaudi_runtime.http.openai_api.media import IMAGES, MOST_PIXELS, pixel_limit
from tests.unit.runtime.http.openai_api.test_guard import healthy_app
from tests.unit.runtime.knobs.configs import vllm_config

CHAT = "/v1/chat/completions"
MOST = 10_000


def picture(width: int, height: int, kind: str = "PNG") -> str:
    """Return an image of one color as base64."""
    file = BytesIO()
    Image.new("L", (width, height)).save(file, kind)
    return b64encode(file.getvalue()).decode()


def chat(*parts: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": list(parts)}]}


def image(data: str, kind: str = "image/png") -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}


def refusal_of(document: Any, most: int = MOST, path: str = CHAT) -> bool:
    try:
        check_body(path, json.dumps(document).encode(), max_pixels=most)
    except InvalidRequest:
        return True
    return False


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
def test_sizes_of_images_are_added(kind: str) -> None:
    half = image(picture(100, 50, kind), "image/anything")
    assert not refusal_of(chat(half, half))
    assert refusal_of(chat(half, half, image(picture(1, 1))))


SQUARE, LARGE = picture(100, 100), picture(101, 100)


def test_image_source_without_text_is_accepted() -> None:
    assert not refusal_of(chat({"type": "image", "source": {"type": "base64", "data": 7}}))


@pytest.mark.parametrize(
    ("path", "within"),
    [
        (CHAT, lambda data: chat({"type": "image_url", "image_url": {"url": f"DATA:image/png;base64,{data}"}})),
        (CHAT, lambda data: chat({"image_url": f"data:image/png;base64,{data}"})),
        (CHAT, lambda data: chat({"type": "video_url", "video_url": {"url": f"data:video/jpeg;base64,{data}"}})),
        ("/v1/responses", lambda data: {"input": [{"content": [{"image_url": f"data:image/png;base64,{data}"}]}]}),
        (
            "/v1/messages",
            lambda data: chat({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}),
        ),
        ("/v2/embed", lambda data: {"images": [f"data:image/png;base64,{data}"]}),
        ("/score", lambda data: {"queries": {"content": [image(data)]}}),
    ],
)
def test_large_image_is_refused_in_every_field_of_the_apis(path: str, within: Any) -> None:
    assert not refusal_of(within(SQUARE), path=path)
    assert refusal_of(within(LARGE), path=path)


def test_sizes_of_images_in_all_messages_are_added() -> None:
    half = chat(image(picture(100, 50)))["messages"]
    assert not refusal_of({"model": "m", "messages": half * 2})
    assert refusal_of({"model": "m", "messages": half * 3})
    assert refusal_of({"model": "m", "messages": [*chat(image(LARGE))["messages"], *half]})


def test_sizes_of_video_frames_are_added() -> None:
    def video(frames: int) -> Any:
        url = "data:video/jpeg;base64," + ",".join([picture(50, 50, "JPEG")] * frames)
        return chat({"type": "video_url", "video_url": {"url": url}})

    assert not refusal_of(video(4))
    assert refusal_of(video(5))


def test_number_of_images_is_limited() -> None:
    one = image(picture(1, 1))
    assert not refusal_of(chat(*[one] * 256))
    assert refusal_of(chat(*[one] * 257))
    assert refusal_of(chat(image("," * 257)))


def test_image_size_is_read_behind_large_metadata() -> None:
    file = BytesIO()
    Image.new("L", (101, 100)).save(file, "JPEG", exif=b"Exif" + b"\0" * 60_000)
    assert refusal_of(chat(image(b64encode(file.getvalue()).decode())))


@pytest.mark.parametrize("kind", ["ICO", "ICNS", "TIFF", "JPEG2000", "PPM", "TGA"])
def test_image_of_another_format_is_refused_with_the_formats(kind: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_body(CHAT, json.dumps(chat(image(picture(32, 32, kind)))).encode(), max_pixels=MOST)
    assert refused.value.message == (
        "An image of the request has none of these formats: PNG, JPEG, WEBP, GIF, BMP. Convert the image to PNG."
    )


@pytest.mark.parametrize("data", ["", "a", "%%%", "AAAA", b64encode(b"\x89PNG\r\n\x1a\n").decode(), "\u00e9"])
def test_data_that_is_no_image_is_refused_except_in_videos(data: str) -> None:
    assert refusal_of(chat(image(data)), most=1)
    assert not refusal_of(chat({"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{data}"}}), most=1)


@pytest.mark.parametrize("data", [picture(500, 500), picture(32, 32, "ICO")])
def test_data_in_other_fields_is_not_read(data: str) -> None:
    url = f"data:image/png;base64,{data}"
    assert not refusal_of({**chat({"type": "text", "text": url}), "user": url, "prompt": [url], "input": url})
    assert not refusal_of(chat({"type": "audio_url", "audio_url": {"url": url}}))


@pytest.mark.parametrize(("most", "opened"), [(MOST, ["body-check_0"]), (0, [])])
async def test_images_are_read_in_a_thread_and_only_for_vision(
    monkeypatch: pytest.MonkeyPatch, most: int, opened: list[str]
) -> None:
    threads: list[str] = []
    original = Image.open

    def open_and_record(*args: Any, **kwargs: Any) -> Any:
        threads.append(threading.current_thread().name)
        return original(*args, **kwargs)

    monkeypatch.setattr(Image, "open", open_and_record)
    async with guarded_client(most) as client:
        assert (await client.post(CHAT, json=chat(image(picture(9, 9))))).text == "theirs"
    assert threads == opened


RESTRICTED = """
import io
from PIL import Image
from gaudi_runtime.http.openai_api.media import restrict_formats

files = {}
for kind in ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "ICO", "ICNS"):
    Image.new("RGB", (32, 32)).save(files.setdefault(kind, io.BytesIO()), kind)
restrict_formats()
for kind, file in files.items():
    try:
        Image.open(file).load()
        print(kind)
    except Image.UnidentifiedImageError:
        pass
"""


def test_pillow_opens_only_the_listed_formats_in_the_serving_process() -> None:
    run = subprocess.run([sys.executable, "-c", RESTRICTED], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["PNG", "JPEG", "WEBP", "GIF", "BMP"]


def guarded_client(max_pixels: int) -> AsyncClient:
    """Return a client of an application behind the guard."""
    metrics = RequestMetrics(CollectorRegistry())
    app = add_guard(healthy_app, vllm_config(), metrics, lambda: False, max_pixels=max_pixels)
    return AsyncClient(transport=ASGITransport(app=app), base_url="http://pod")


async def test_small_file_of_many_pixels_does_not_reach_vllm() -> None:
    file = BytesIO()
    Image.new("1", (13_300, 13_300)).save(file, "PNG", optimize=True)
    bomb = file.getvalue()
    assert len(bomb) < 30_000
    async with guarded_client(pixel_limit({})) as client:
        answer = await client.post(CHAT, json=chat(image(b64encode(bomb).decode())))
        assert (answer.status_code, answer.json()["error"]["message"]) == (
            400,
            "The images of the request have more than 67108864 pixels in total. Send fewer or smaller images.",
        )
        assert (await client.post(CHAT, json=chat(*[image(picture(1024, 1024))] * 4))).text == "theirs"


async def test_media_options_do_not_reach_vllm() -> None:
    options = chat() | {"media_io_kwargs": {"video": {"num_frames": -1}}}
    async with guarded_client(0) as client:
        assert (await client.post(CHAT, json=options)).status_code == 400


@pytest.mark.parametrize(
    ("value", "most"),
    [(None, MOST_PIXELS), ("1000", 1000), ("0", 0), ("-1", 0), ("many", MOST_PIXELS)],
)
def test_pixel_limit_of_a_request_follows_the_image_limit(value: str | None, most: int) -> None:
    assert pixel_limit({"VLLM_MAX_IMAGE_PIXELS": value} if value else {}) == IMAGES * most
