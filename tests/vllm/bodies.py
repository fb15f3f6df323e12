"""The most expensive request bodies within the limits, for each path that generates tokens.

When run as a program, the module sends these bodies to a server from several concurrent clients. The program needs the
runtime but not the other tests, so it runs in any pod with the runtime's image.
"""

import http.client
import json
import socket
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock, Thread

from gaudi_runtime.http.openai_api.body import FORMS, MOST_ITEMS, MOST_VALUES, RESPONSES
from gaudi_runtime.http.openai_api.body_reader import MAX_BODY_BYTES

CLIENTS = 8
HEADS, HEAD_SECONDS = 400, 50
"""The number of heads without bodies, more than a model has places, and the time until new heads replace them."""
SEQUENCES = "more sequences than the model has places"
LISTS = ("input", "prompt", "tokens", "messages", "system", "tools", "queries", "documents", "texts", "inputs", "stop")
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
