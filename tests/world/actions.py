"""The commands that are possible in the current state of a world. The caller chooses one command."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from tests.world import commands
from tests.world.commands import Fault
from tests.world.runtime import BEHAVIOUR, Behaviour

T = TypeVar("T")
NODES = ("node-a", "node-b")
WATCHED = ("GaudiInference", "Pod", "ReplicaSet", "ControllerRevision")


class Choose(Protocol):
    """A function that chooses one of several options."""

    def __call__(self, options: Sequence[T]) -> T:
        """Return one of `options`, which is not empty."""


class Picture(Protocol):
    """The resource and the names that a command can refer to."""

    resource: dict[str, Any]
    pods: list[str]
    children: list[tuple[str, str]]
    revisions: list[str]


Action = Callable[[Picture, Choose], commands.Command | None]


def pass_time(_: Picture, choose: Choose) -> commands.Command:
    """Let some seconds pass."""
    return commands.PassTime(choose((1, 2, 5, 12, 35)))


def upgrade(_: Picture, choose: Choose) -> commands.Command:
    """Upgrade to a revision that works or to a revision with a fault."""
    return commands.ChangeSpec(runs(choose((*GOOD, *GOOD, *map(str, Behaviour)))))


def scale(_: Picture, choose: Choose) -> commands.Command:
    """Change the number of replicas."""
    return commands.ChangeSpec({"replicas": choose((2, 3, 1, 4, 0))})


def change_rollout(_: Picture, choose: Choose) -> commands.Command:
    """Change type, maxSurge and maxUnavailable to values that the API allows."""
    kind, surge = choose(("SurgeThenInPlace", "Surge", "InPlace")), choose((1, 2, "25%", "100%"))
    unavailable = choose((None, 0, 1, 2, "50%"))
    if unavailable == 0 and kind == "InPlace":
        unavailable = 1
    return _rollout(type=kind, maxSurge=surge, maxUnavailable=unavailable)


def change_failure(_: Picture, choose: Choose) -> commands.Command:
    """Change the reaction to a failed revision and the observation time of a canary."""
    return _rollout(
        onFailure=choose(("Rollback", "Pause")),
        canary={"observeSeconds": choose((0, 30)), "maxRecompiles": 10},
    )


def change_recompiles(_: Picture, choose: Choose) -> commands.Command:
    """Change the reaction to pods whose requests wait for compilations."""
    return commands.ChangeSpec(
        {"readiness": {"onRecompiles": choose(("CloseGate", "Warn")), "maxRecentRecompiles": 10}}
    )


def pause(picture: Picture, _: Choose) -> commands.Command:
    """Pause or resume the rollout."""
    return _rollout(paused=not picture.resource["spec"].get("rollout", {}).get("paused", False))


def restart(_: Picture, choose: Choose) -> commands.Command:
    """Restart all pods."""
    return commands.Restart(choose(("one", "two", "three")))


def undo(picture: Picture, choose: Choose) -> commands.Command | None:
    """Change the spec back to the inputs of a kept revision."""
    return commands.Undo(choose(picture.revisions)) if picture.revisions else None


def refuse(_: Picture, choose: Choose) -> commands.Command:
    """Add a setting that the operator refuses, or remove this setting."""
    return commands.ChangeSpec({"engine": {"settings": choose(({"VLLM_USE_V1": "1"}, None))}})


def forgive(picture: Picture, choose: Choose) -> commands.Command | None:
    """Remove the failure mark of a revision, so that the operator tries the revision once more."""
    return commands.Forgive(choose(picture.revisions)) if picture.revisions else None


def kill_pod(picture: Picture, choose: Choose) -> commands.Command | None:
    """Delete a pod."""
    return commands.KillPod(choose(picture.pods)) if picture.pods else None


def end_container(picture: Picture, choose: Choose) -> commands.Command | None:
    """End a pod's container."""
    return commands.EndContainer(choose(picture.pods)) if picture.pods else None


def fail_pod(picture: Picture, choose: Choose) -> commands.Command | None:
    """Let a node evict a pod."""
    return commands.FailPod(choose(picture.pods)) if picture.pods else None


def refuse_pods(_: Picture, choose: Choose) -> commands.Command:
    """Let a node fail all new pods, as if the device plugin had lost its cards."""
    return commands.RefusePods(choose(NODES), choose((5, 20, 90)))


def load(picture: Picture, choose: Choose) -> commands.Command | None:
    """Send requests to a pod."""
    return commands.Load(choose(picture.pods), choose((0, 1, 7))) if picture.pods else None


def lose_node(_: Picture, choose: Choose) -> commands.Command:
    """Make a node unreachable."""
    return commands.LoseNode(choose(NODES))


def return_node(_: Picture, choose: Choose) -> commands.Command:
    """Make a lost node reachable again."""
    return commands.ReturnNode(choose(NODES), choose((False, True)))


def take_cards(_: Picture, choose: Choose) -> commands.Command:
    """Let other workloads use or free cards."""
    return commands.TakeCards(choose(NODES), choose((0, 2, 3, 4)))


def limit_pods(_: Picture, choose: Choose) -> commands.Command:
    """Set or remove a quota."""
    return commands.LimitPods(choose((None, 2, 3)))


def admit_pods(_: Picture, choose: Choose) -> commands.Command:
    """Limit the number of admitted pods, or admit all pods. Like Kueue, hold other new pods with a scheduling gate."""
    return commands.AdmitPods(choose((None, 2, 3, 1)))


def delete_child(picture: Picture, choose: Choose) -> commands.Command | None:
    """Delete a child of the resource."""
    return commands.DeleteChild(*choose(picture.children)) if picture.children else None


def break_writes(_: Picture, choose: Choose) -> commands.Command:
    """Inject faults into some of the next writes."""
    kinds = (Fault.REFUSED, Fault.UNANSWERED, Fault.LATE, Fault.KILLED)
    return commands.BreakWrites(tuple(choose((None, *kinds)) or Fault.NONE for _ in range(choose((1, 2, 4)))))


def blind_watch(_: Picture, choose: Choose) -> commands.Command:
    """Delay the events of a watch."""
    return commands.BlindWatch(choose(WATCHED), choose((5, 20, 60)))


def cut_off(_: Picture, choose: Choose) -> commands.Command:
    """Block all requests of the leader, or only requests for the Lease."""
    return commands.CutOff(choose((2, 8, 20)), lease_only=choose((False, True)))


def kill_operator(_: Picture, __: Choose) -> commands.Command:
    """Kill the leader."""
    return commands.KillOperator()


def runs(behaviour: str) -> dict[str, Any]:
    """Return the spec fields of a revision with this behavior. A merge patch replaces the whole list `env`."""
    return {"engine": {"env": [{"name": BEHAVIOUR, "value": behaviour}]}}


def _rollout(**fields: Any) -> commands.ChangeSpec:
    return commands.ChangeSpec({"rollout": fields})


GOOD = ("good", "good-b", "good-c", "slow-b")
"""The behaviours of revisions that work."""

ACTIONS: tuple[Action, ...] = (
    pass_time,
    upgrade,
    scale,
    change_rollout,
    change_failure,
    change_recompiles,
    pause,
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
    admit_pods,
    delete_child,
    break_writes,
    blind_watch,
    cut_off,
    kill_operator,
)
