"""`kubectl gaudi rollout status`: waits until a rollout is over, and says by its exit code how it went."""

import time
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import typer

from gaudi_operator.cli.kubectl import duration
from gaudi_operator.cli.kubectl.asking import Asked, asks
from gaudi_operator.cli.kubectl.refusal import Refused
from gaudi_operator.cli.kubectl.verdict import Outcome, Verdict, judge
from gaudi_operator.core.observed import Manifest
from gaudi_operator.core.rollout.revision import stored_revisions

LONGEST_WATCH_SECONDS = 240.0
"""A watch is begun anew after so long: what stands between may cut it without a word."""


class Truth(StrEnum):
    """A flag as kubectl takes it: --watch=false."""

    TRUE = "true"
    FALSE = "false"


Watch = Annotated[Truth, typer.Option("-w", "--watch", help="Wait until the rollout is over.")]
Timeout = Annotated[str, typer.Option(help="Wait no longer than this, such as 90s or 5m; 0 waits without end.")]


@asks
def status(asked: Asked, watch: Watch = Truth.TRUE, timeout: Timeout = "0s") -> None:
    """Show how far a rollout is: exit code 0 when it is rolled out, 1 when it failed, was rolled back or timed out.

    With --watch=false also 0 while it is on its way.
    """
    from rich.console import Console

    from gaudi_operator.cli.kubectl.progress import Course

    seconds = duration.seconds(timeout)
    manifests = _followed(asked, seconds) if watch is Truth.TRUE else iter([asked.cluster.inference(asked.name)])
    with Course(Console()) as course:
        for manifest in manifests:
            verdict = _judge(asked, manifest)
            if verdict.outcome is Outcome.FAILED:
                raise Refused(verdict.sentence)
            course.show(verdict)
            if verdict.outcome is Outcome.DONE:
                return
    if watch is Truth.TRUE:
        raise Refused(f"timed out after {timeout}: {verdict.sentence}")


def _followed(asked: Asked, seconds: float) -> Iterator[Manifest]:
    """The resource now and after every change, until `seconds` are over; 0 never are."""
    deadline = time.monotonic() + (seconds or float("inf"))
    while True:
        yield asked.cluster.inference(asked.name)
        left = deadline - time.monotonic()
        if left <= 0:
            return
        yield from asked.cluster.changes(asked.name, min(left, LONGEST_WATCH_SECONDS))


def _judge(asked: Asked, manifest: Manifest) -> Verdict:
    return judge(manifest, stored_revisions(asked.cluster.revisions(asked.name)))
