"""One streamed chat completion, printed as it arrives. The script runs in a pod with the standard library only."""

import http.client
import json
import sys


def main(host: str, model: str, question: str) -> None:
    """Send `question` to the OpenAI API on `host` and print the chunks of the answer."""
    connection = http.client.HTTPConnection(host, 80, timeout=60)
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": 32,
        "temperature": 0,
        "stream": True,
    }
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    if answer.status != http.client.OK:
        sys.exit(f"HTTP {answer.status}: {answer.read().decode()}")
    for line in answer:
        _show(line.decode().strip())


def _show(line: str) -> None:
    if not line.startswith("data: ") or line.endswith("[DONE]"):
        return
    for choice in json.loads(line[len("data: ") :])["choices"]:
        sys.stdout.write(choice["delta"].get("content") or "")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:4])
