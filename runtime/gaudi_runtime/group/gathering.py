"""What makes the engine of a pod that serves: its own one, or one over all pods of its group."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.engines.protocol import Engine, SpansPods
from gaudi_runtime.group.engine import GroupEngine, RankedEngine
from gaudi_runtime.group.members import Members
from gaudi_runtime.group.messages import config_digest
from gaudi_runtime.group.others import OtherPods
from gaudi_runtime.group.place import Place
from gaudi_runtime.lost import ended_when_lost
from gaudi_runtime.report_board import ReportBoard
from gaudi_runtime.signals import Signals

Make = Callable[[RuntimeConfig], Engine]


@asynccontextmanager
async def over_the_group(
    config: RuntimeConfig, place: Place, board: ReportBoard, signals: Signals, make: Make
) -> AsyncIterator[Make]:
    """`make` where the pod is alone; otherwise the ranks may join while the block runs, and end it when one is lost.

    Raises PortUnavailable.
    """
    if place.size == 1:
        yield make
        return
    digest = config_digest(config)
    async with (
        Members(place, config.serving.group_port, digest, board.touch, signals) as members,
        ended_when_lost(members.until_lost, board),
    ):
        waits = partial(_say_who_is_missing, board)

        def make_over_all(config: RuntimeConfig) -> Engine:
            own = make(config)
            if isinstance(own, SpansPods):
                own.span(OtherPods(members, waits))
                return own
            return GroupEngine(cast("RankedEngine", own), members, waits)

        yield make_over_all


def _say_who_is_missing(board: ReportBoard, ranks: list[int]) -> None:
    named = ", ".join(map(str, ranks))
    warnings = (f"The group waits for the pods of rank {named}.",) if ranks else ()
    if board.report().warnings != warnings:
        board.update(warnings=warnings)
