"""The traffic client in a pod, and its answers."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.client_pod import ClientPod, Kubectl

SCRIPT = Path(__file__).with_name("traffic.py")


@dataclass(frozen=True)
class Answer:
    """One line of the traffic client. `at` is the time of the request in seconds since the epoch."""

    at: float
    seconds: float
    stream: bool
    instance: str
    error: str


class Traffic:
    """Requests to a Service from inside the cluster, until stopped."""

    def __init__(self, kubectl: Kubectl, namespace: str, image: str) -> None:
        """Create the client without starting it."""
        self._pod = ClientPod(kubectl, namespace, "traffic", image, SCRIPT)

    def start(
        self,
        service: str,
        model: str,
        *,
        workers: int = 4,
        max_tokens: int = 12,
        pause: float = 0.0,
        mixed_sampling: bool = False,
    ) -> None:
        """Start to send requests for at most `max_tokens`. Each worker waits `pause` seconds after an answer.

        With `mixed_sampling`, the requests have several kinds of sampling. Otherwise they are greedy.
        """
        options = ["--workers", str(workers), "--max-tokens", str(max_tokens), "--pause", str(pause)]
        options += ["--mixed-sampling"] if mixed_sampling else []
        self._pod.start("--host", service, "--model", model, *options)

    def stop(self) -> list[Answer]:
        """Let the running requests finish, remove the pod and return every answer."""
        self._pod.interrupt()
        return parse_answers(self._pod.finish())


def parse_answers(log: str) -> list[Answer]:
    """Return the answers in the log of a traffic client."""
    return [_parse_answer(json.loads(line)) for line in log.splitlines()]


def _parse_answer(fields: dict[str, Any]) -> Answer:
    return Answer(**{key: fields[key] for key in ("at", "seconds", "stream", "instance", "error")})
