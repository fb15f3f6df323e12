"""Sends chat requests and prints one JSON line per answer. The script runs in any pod that has Python.

Half of the workers stream, and half keep their connection open as most clients do. Failed requests are not retried.
After SIGTERM, the script finishes its running requests and then ends.
"""

import argparse
import http.client
import json
import os
import signal
import sys
import threading
import time
from typing import Any

INSTANCE_HEADER = "x-gaudi-instance"
TIMEOUT_SECONDS = 60.0
GREEDY: dict[str, Any] = {"temperature": 0}
MIXED_SAMPLING: tuple[dict[str, Any], ...] = (
    GREEDY,
    {"temperature": 0.8},
    {"temperature": 0.8, "top_k": 20},
    {"temperature": 0.8, "top_p": 0.9, "logprobs": True, "top_logprobs": 1},
    {"temperature": 0, "logprobs": True, "top_logprobs": 5},
    {"temperature": 0, "presence_penalty": 0.5},
)
"""Request parameters of kinds of sampling that vLLM supports."""


def main() -> None:
    """Start the workers and wait until a signal has stopped all of them."""
    options = _options()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    workers = [threading.Thread(target=_run_worker, args=(options, index, stop)) for index in range(options.workers)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", required=True, help="host of the OpenAI API")
    parser.add_argument("--port", type=int, default=80)
    parser.add_argument("--model", required=True)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=12)
    parser.add_argument("--mixed-sampling", action="store_true", help="send several kinds of sampling, for vLLM")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that each worker waits after an answer")
    return parser.parse_args()


def _run_worker(options: argparse.Namespace, worker_index: int, stop: threading.Event) -> None:
    connection = None
    request_count = 0
    while not stop.is_set():
        if connection is None:
            connection = http.client.HTTPConnection(options.host, options.port, timeout=TIMEOUT_SECONDS)
        result = _send_request(connection, _body(options, worker_index, request_count))
        # Write each line with one system call. The workers share this file, and their lines must not mix.
        os.write(sys.stdout.fileno(), f"{json.dumps(result)}\n".encode())
        request_count += 1
        # Odd workers open a new connection for every request. Even workers reuse their connection until the server
        # closes it.
        if worker_index % 2 or result["close"]:
            connection.close()
            connection = None
        stop.wait(options.pause)


def _body(options: argparse.Namespace, worker_index: int, request_index: int) -> dict[str, Any]:
    sampling = (
        MIXED_SAMPLING[(request_index + worker_index) % len(MIXED_SAMPLING)] if options.mixed_sampling else GREEDY
    )
    prompt = "please tell me more about graphs and buckets " * (1 + (request_index + worker_index) % 3)
    return {
        "model": options.model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": options.max_tokens,
        "stream": worker_index // 2 % 2 == 0,
        **sampling,
    }


def _send_request(connection: http.client.HTTPConnection, body: dict[str, Any]) -> dict[str, Any]:
    """Send one request, read the whole answer, and return {at, seconds, stream, status, instance, error, close}."""
    result: dict[str, Any] = {"at": time.time(), "stream": body["stream"], "status": 0, "instance": "", "error": ""}
    start = time.perf_counter()
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        result |= {"status": answer.status, "instance": answer.headers.get(INSTANCE_HEADER, "")}
        result["error"] = _error_of(answer.status, answer.read().decode(), stream=body["stream"])
        result["close"] = answer.headers.get("connection", "").lower() == "close"
    except (OSError, http.client.HTTPException) as error:
        result |= {"error": f"{type(error).__name__}: {error}", "close": True}
    result["seconds"] = round(time.perf_counter() - start, 4)
    return result


def _error_of(status: int, text: str, *, stream: bool) -> str:
    """Return the error of an answer, or '' if it is complete. A stream must end with [DONE] and a finish reason."""
    if status != http.client.OK:
        return f"HTTP {status}: {text[:200]}"
    if not stream:
        return "" if json.loads(text)["choices"][0]["finish_reason"] else "no finish reason"
    events = [line[len("data: ") :] for line in text.splitlines() if line.startswith("data: ")]
    if not events or events[-1] != "[DONE]":
        return "the stream is incomplete"
    choices = [choice for event in events[:-1] for choice in json.loads(event)["choices"]]
    return "" if any(choice["finish_reason"] for choice in choices) else "the stream has no finish reason"


if __name__ == "__main__":
    main()
