"""Which commands make sense in a world as it is; whoever drives it chooses among them."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from tests.world import commands
from tests.world.commands import Fault
from tests.world.runtime import BEHAVIOUR, Behaviour

T = TypeVar("T")
NODES = ("node-a", "node-b")
WATCHED = ("GaudiInference", "Pod", "ReplicaSet", "ControllerRevision")


class Choose(Protocol):
    """Picks one of several options."""

    def __call__(self, options: Sequence[T]) -> T:
        """One of `options`, which are not empty."""


class Picture(Protocol):
    """What can be named in a command."""

    resource: dict[str, Any]
    pods: list[str]
    children: list[tuple[str, str]]
    revisions: list[str]


Action = Callable[[Picture, Choose], commands.Command | None]


def pass_time(_: Picture, choose: Choose) -> commands.Command:
    """Some seconds."""
    return commands.PassTime(choose((1, 2, 5, 12, 35)))


def upgrade(_: Picture, choose: Choose) -> commands.Command:
    """To a revision that works, or to one with a fault."""
    return commands.ChangeSpec(runs(choose((*GOOD, *GOOD, *map(str, Behaviour)))))


def scale(_: Picture, choose: Choose) -> commands.Command:
    """To another number of replicas."""
    return commands.ChangeSpec({"replicas": choose((2, 3, 1, 4, 0))})


def change_rollout(_: Picture, choose: Choose) -> commands.Command:
    """Other numbers, and what is done without room, among those that the API allows."""
    room, surge = choose((None, "Wait", "ReplaceInPlace")), choose((1, 2, 0, "25%", "100%"))
    unavailable = choose((0, 1, 2, "50%"))
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return _rollout(whenNoRoom=room, maxSurge=surge, maxUnavailable=unavailable)


def change_failure(_: Picture, choose: Choose) -> commands.Command:
    """What a failure leads to, and how long a canary is observed."""
    return _rollout(
        onFailure=choose(("Rollback", "Pause")),
        canary={"observeSeconds": choose((0, 30)), "maxRecompiles": 10},
    )


def change_recompiles(_: Picture, choose: Choose) -> commands.Command:
    """What becomes of pods whose requests wait for compiles."""
    return commands.ChangeSpec(
        {"readiness": {"onRecompiles": choose(("CloseGate", "Warn")), "maxRecentRecompiles": 10}}
    )


def pause(picture: Picture, _: Choose) -> commands.Command:
    """Hold the rollout, or let it go on."""
    return _rollout(paused=not picture.resource["spec"].get("rollout", {}).get("paused", False))


def pin(picture: Picture, choose: Choose) -> commands.Command | None:
    """Run a kept revision whatever the spec says, or no longer."""
    return _rollout(revision=choose((None, *picture.revisions)))


def restart(_: Picture, choose: Choose) -> commands.Command:
    """Restart all pods."""
    return commands.Restart(choose(("one", "two", "three")))


def undo(picture: Picture, choose: Choose) -> commands.Command | None:
    """Let the spec ask for a kept revision again."""
    return commands.Undo(choose(picture.revisions)) if picture.revisions else None


def refuse(_: Picture, choose: Choose) -> commands.Command:
    """A setting that the operator refuses, or none."""
    return commands.ChangeSpec({"engine": {"settings": choose(({"VLLM_USE_V1": "1"}, None))}})


def forgive(picture: Picture, choose: Choose) -> commands.Command | None:
    """Let a failed revision be tried once more."""
    return commands.Forgive(choose(picture.revisions)) if picture.revisions else None


def kill_pod(picture: Picture, choose: Choose) -> commands.Command | None:
    """Delete a pod."""
    return commands.KillPod(choose(picture.pods)) if picture.pods else None


def end_container(picture: Picture, choose: Choose) -> commands.Command | None:
    """End a pod's container."""
    return commands.EndContainer(choose(picture.pods)) if picture.pods else None


def fail_pod(picture: Picture, choose: Choose) -> commands.Command | None:
    """Let a pod be thrown out by its node."""
    return commands.FailPod(choose(picture.pods)) if picture.pods else None


def refuse_pods(_: Picture, choose: Choose) -> commands.Command:
    """Let a node fail all pods that are sent to it, as where its device plugin has lost its cards."""
    return commands.RefusePods(choose(NODES), choose((5, 20, 90)))


def load(picture: Picture, choose: Choose) -> commands.Command | None:
    """Give a pod requests to answer."""
    return commands.Load(choose(picture.pods), choose((0, 1, 7))) if picture.pods else None


def lose_node(_: Picture, choose: Choose) -> commands.Command:
    """Cut a node off."""
    return commands.LoseNode(choose(NODES))


def return_node(_: Picture, choose: Choose) -> commands.Command:
    """Bring a node back."""
    return commands.ReturnNode(choose(NODES), choose((False, True)))


def take_cards(_: Picture, choose: Choose) -> commands.Command:
    """Others take or free cards."""
    return commands.TakeCards(choose(NODES), choose((0, 2, 3, 4)))


def limit_pods(_: Picture, choose: Choose) -> commands.Command:
    """Set or lift a quota."""
    return commands.LimitPods(choose((None, 2, 3)))


def delete_child(picture: Picture, choose: Choose) -> commands.Command | None:
    """Delete an object of the operator."""
    return commands.DeleteChild(*choose(picture.children)) if picture.children else None


def break_writes(_: Picture, choose: Choose) -> commands.Command:
    """Let some of the next writes fail."""
    kinds = (Fault.REFUSED, Fault.UNANSWERED, Fault.LATE, Fault.KILLED)
    return commands.BreakWrites(tuple(choose((None, *kinds)) or Fault.NONE for _ in range(choose((1, 2, 4)))))


def blind_watch(_: Picture, choose: Choose) -> commands.Command:
    """Let a watch be stuck."""
    return commands.BlindWatch(choose(WATCHED), choose((5, 20, 60)))


def cut_off(_: Picture, choose: Choose) -> commands.Command:
    """Let no request of the leader through."""
    return commands.CutOff(choose((2, 8, 20)), lease_only=choose((False, True)))


def kill_operator(_: Picture, __: Choose) -> commands.Command:
    """End the operator."""
    return commands.KillOperator()


def runs(behaviour: str) -> dict[str, Any]:
    """The spec of a revision with that behaviour; the API takes lists whole."""
    return {"engine": {"env": [{"name": BEHAVIOUR, "value": behaviour}]}}


def _rollout(**fields: Any) -> commands.ChangeSpec:
    return commands.ChangeSpec({"rollout": fields})


GOOD = ("good", "good-b", "good-c", "slow-b")
"""Revisions that work."""

ACTIONS: tuple[Action, ...] = (
    pass_time,
    upgrade,
    scale,
    change_rollout,
    change_failure,
    change_recompiles,
    pause,
    pin,
    restart,
    undo,
    refuse,
    forgive,
    kill_pod,
    end_container,
    fail_pod,
    refuse_pods,
    load,
    lose_node,
    return_node,
    take_cards,
    limit_pods,
    delete_child,
    break_writes,
    blind_watch,
    cut_off,
    kill_operator,
)
