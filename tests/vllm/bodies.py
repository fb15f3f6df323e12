"""The most expensive request bodies within the limits, for each path that generates tokens.

When run as a program, the module sends these bodies to a server from several concurrent clients. The program needs the
runtime but not the other tests, so it runs in any pod with the runtime's image.
"""

import http.client
import json
import socket
import struct
import sys
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock, Thread
from typing import Any

from gaudi_runtime.engines.vllm.grammars import MOST_CHARACTERS, MOST_LEVELS
from gaudi_runtime.http.openai_api.body import FORMS, MOST_ITEMS, MOST_VALUES, RESPONSES
from gaudi_runtime.http.openai_api.body_reader import MAX_BODY_BYTES

CLIENTS = 8
HEADS, HEAD_SECONDS = 400, 50
"""The number of heads without bodies, more than a model has places, and the time until new heads replace them."""
SEQUENCES = "more sequences than the model has places"
LISTS = ("input", "prompt", "tokens", "messages", "system", "tools", "queries", "documents", "texts", "inputs", "stop")
MODEL = "tiny"
GRAMMARS = ("structured_outputs", "response_format", "tools", "text")
"""Fields of vLLM's request models that have grammars."""
JUNK = {"null": b"null", "one": b"1", "list": b"[]", "object": b"{}", "text": b'{"type":"text","text":0}'}


def bodies(path: str, known: Collection[str]) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield the most expensive bodies of `path` as (name, content type, body).

    `known` contains the fields of the path's request models. All unknown fields have the same cost, so one unknown
    field represents all of them.
    """
    if path.startswith(FORMS):
        yield from _forms()
        return
    for name in (*(each for each in LISTS if each in known), "unknown"):
        for kind, junk in JUNK.items():
            most = MOST_VALUES // (1 + junk.count(b":")) - 10
            items = b",".join([junk] * (MOST_ITEMS if (path, name) == (RESPONSES, "input") else most))
            yield f"{name}: {kind}", *_json(f'"{name}":[%s]', items)
    for name in (*(each for each in ("input", "prompt", "tokens") if each in known), "unknown"):
        ids = b",".join([b"1"] * (MAX_BODY_BYTES // 2 - 99))
        yield f"{name}: token ids up to the bound", *_json(f'"{name}":[%s]', ids)
        yield f"{name}: lists of token ids", *_json(f'"{name}":[%s]', b",".join([b"[1]"] * (MOST_VALUES - 10)))
    for name in (each for each in ("messages", "input", "queries", "documents", "inputs") if each in known):
        for kind, junk in JUNK.items():
            items = b",".join([junk] * (MOST_VALUES // (1 + junk.count(b":")) - 10))
            yield f"content of {name}: {kind}", *_json(f'"{name}":[{{"role":"user","content":[%s]}}]', items)
    for name in (*(each for each in ("vllm_xargs", "logit_bias", "metadata") if each in known), "unknown"):
        for kind, junk in JUNK.items():
            count = MOST_VALUES // (1 + junk.count(b":")) - 10
            entries = b",".join(b'"%d":%s' % (at, junk) for at in range(count))
            yield f"entries of {name}: {kind}", *_json(f'"{name}":{{%s}}', entries)
    if "n" in known and "prompt" in known:
        # The last value of a field counts, so the body is valid for the model of the attack test too.
        prompts = b'["a"' + b',"a"' * 1023 + b"]"
        yield SEQUENCES, *_json('"model":"tiny","max_tokens":800,"ignore_eos":true,"n":16384,"prompt":%s', prompts)
    yield "many fields", *_json("%s", b",".join(b'"%d":0' % at for at in range(MOST_VALUES - 10)))
    for depth in (500, 5_000):
        for name in (*(each for each in ("messages", "input", "prompt") if each in known), "unknown"):
            yield f"{name}: {depth} lists deep", *_json(f'"{name}":%s', b"[" * depth + b"]" * depth)
            yield f"{name}: {depth} objects deep", *_json(f'"{name}":[%s]', b'{"content":[' * depth + b"]}" * depth)
    for name, fields in (*_grammars(known), *_images(known)):
        document = {"model": MODEL, **_prompt(known), "max_tokens": 1, **fields}
        yield name, b"application/json", json.dumps(document).encode()


def _prompt(known: Collection[str]) -> dict[str, Any]:
    """Return a short valid prompt, in the first field that the path has."""
    user = [{"role": "user", "content": "hello"}]
    values = {"messages": user, "input": "hello", "prompt": "hello", "queries": "hello", "documents": ["hello"]}
    return dict([each for each in values.items() if each[0] in known][:1])


def _grammars(known: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield valid requests with grammars at the bounds and above them."""
    for name, schema in _schemas():
        if "structured_outputs" in known:
            yield f"schema of {name}", {"structured_outputs": {"json": schema}}
        if "levels" in name:
            for form, field, fields in _forms_of(schema):
                if field in known:
                    yield f"{form} of {name}", fields
    if "structured_outputs" in known:
        for regex in ("(" * 2000 + "a" + ")" * 2000, "(" * 60_000 + "a" + ")" * 60_000, "((a{1,99}){1,99}){1,99}b"):
            yield f"expression of {len(regex)} characters", {"structured_outputs": {"regex": regex}}


def _forms_of(schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the fields of a request in which a schema may be: (name, field, fields)."""
    tag = {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": schema}}
    named = {"name": "f", "schema": schema}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    forced = {"tools": tools, "tool_choice": {"type": "function", "function": {"name": "f"}}}
    yield "schema in a string", "structured_outputs", {"structured_outputs": {"json": json.dumps(schema)}}
    yield "tag in a string", "structured_outputs", {"structured_outputs": {"structural_tag": json.dumps(tag)}}
    yield "response format", "response_format", {"response_format": {"type": "json_schema", "json_schema": named}}
    yield "structural tag", "response_format", {"response_format": tag}
    yield "text format", "text", {"text": {"format": {"type": "json_schema", **named}}}
    yield "forced tool", "tools", forced
    yield "tool of Anthropic", "tools", {"tools": [{"name": "f", "input_schema": schema}]}


def _schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    any_type = ["string", "integer", "null", "array", "object"]
    for levels in (MOST_LEVELS - 8, MOST_LEVELS + 40, 400):
        yield f"{levels} levels", {"anyOf": [_nested({}, levels)]}
    yield "many deep types", {"anyOf": [_nested({"type": any_type}, MOST_LEVELS - 6) for _ in range(7)]}
    yield "many ranges", {"anyOf": [{"type": "integer", "minimum": -(10**17), "maximum": 10**17}] * 900}
    yield "many properties", {"properties": {f"k{at}": {} for at in range(99)}, "type": "object", "maxProperties": 900}
    yield "repeated groups", {"anyOf": [{"type": "string", "pattern": f"^{at}(abcdefg){{1,128}}$"} for at in range(70)]}
    yield "a repeated group", {"type": "string", "pattern": "(abcdefgh){1,1200}"}
    yield "a longer repeat", {"type": "string", "pattern": "a{1,10000}"}
    yield "nested groups", {"type": "string", "pattern": "(" * 60_000 + "a" + ")" * 60_000}
    yield "many items", {"type": "array", "items": {"type": "integer", "multipleOf": 3}, "maxItems": 1_000_000}
    features = {"type": "object", "properties": {}, "patternProperties": {"a": {}, "b": {}}}
    yield "patternProperties", {**features, "allOf": [_nested({}, 50)]}
    yield "too many characters", {"enum": ["a" * MOST_CHARACTERS]}


def _nested(fields: dict[str, Any], levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "array", **fields, "items": schema}
    return schema


def _images(known: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield valid requests with small files that decode to hundreds of MiB, and with many images."""
    png = _png(13_300)
    ico = struct.pack("<HHH", 0, 1, 1) + struct.pack("<BBBBHHII", 1, 1, 0, 0, 1, 32, len(png), 22) + png
    icns = b"icns" + struct.pack(">I", 16 + len(png)) + b"icp4" + struct.pack(">I", 8 + len(png)) + png
    files = {"ICO": (ico, 1), "ICNS": (icns, 4), "large PNG": (png, 1), "small PNG": (_png(64), 256)}
    for name, (file, count) in files.items():
        url = "data:image/png;base64," + b64encode(file).decode()
        parts = [{"type": "image_url", "image_url": {"url": url}}] * count
        if "messages" in known:
            yield f"{count} images: {name}", {"messages": [{"role": "user", "content": parts}]}
        yield f"{name} in another field", {"user": url}


def _png(side: int) -> bytes:
    """Return a PNG of one bit per pixel, without Pillow: a square of zeros."""
    row = bytes(1 + (side + 7) // 8)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(row * side, 9)) + chunk(b"IEND", b"")


def _json(form: str, inside: bytes) -> tuple[bytes, bytes]:
    return b"application/json", b'{"model":"m",' + form.encode().replace(b"%s", inside) + b"}"


def _forms() -> Iterator[tuple[str, bytes, bytes]]:
    head = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
    form = b"multipart/form-data; boundary=x"
    field = head % (b"timestamp_granularities[]", b"1")
    yield "as many fields as are read", form, field * 1000 + b"--x--\r\n"
    yield "fields up to the bound", form, field * (MAX_BODY_BYTES // len(field) - 1) + b"--x--\r\n"
    yield "a large field", form, head % (b"prompt", b"a" * (MAX_BODY_BYTES - 999)) + b"--x--\r\n"
    yield "JSON", b"application/json", b'{"input":[' + b"1," * 4_000_000 + b"1]}"
    yield "an encoded form", b"application/x-www-form-urlencoded", b"a=1&" * 4_000_000


def send(host: str, path: str, kind: bytes, body: bytes) -> int:
    """Return the status code of the answer, or 0 if the server closed the connection before it read the whole body."""
    connection = http.client.HTTPConnection(host, 80, timeout=300)
    try:
        connection.request("POST", path, body, {"Content-Type": kind.decode()})
        return connection.getresponse().status
    except (BrokenPipeError, ConnectionResetError):
        return 0
    finally:
        connection.close()


def hold_heads(host: str, is_done: Event) -> None:
    """Send the heads of HEADS requests without their bodies, again and again, until `is_done` is set."""
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
    )
    while not is_done.is_set():
        connections = list[socket.socket]()
        for _ in range(HEADS):
            connections.append(socket.create_connection((host, 80), timeout=300))
            connections[-1].sendall(head.encode())
        is_done.wait(HEAD_SECONDS)
        for connection in connections:
            connection.close()


def main() -> None:
    """Send all bodies to the host in the first argument. The second argument contains the request fields by path."""
    host, fields = sys.argv[1], json.loads(sys.argv[2])

    made = ((path, kind, body) for path, known in fields.items() for _, kind, body in bodies(path, known))
    lock = Lock()

    def send_next(_: int) -> list[int]:
        statuses: list[int] = []
        while True:
            with lock:
                following = next(made, None)
            if following is None:
                return statuses
            statuses.append(send(host, *following))

    is_done = Event()
    slow_client = Thread(target=hold_heads, args=(host, is_done))
    slow_client.start()
    with ThreadPoolExecutor(CLIENTS) as threads:
        statuses = Counter(status for part in threads.map(send_next, range(CLIENTS)) for status in part)
    is_done.set()
    slow_client.join()
    sys.stdout.write(json.dumps(statuses) + "\n")


if __name__ == "__main__":
    main()
