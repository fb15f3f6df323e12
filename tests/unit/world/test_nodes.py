"""Observations of containers on nodes of the in-memory world."""

from tests.laws.readiness import no_gate_closes_without_evidence
from tests.world import commands
from tests.world.actions import runs
from tests.world.nodes import POLLED_SECONDS
from tests.world.runtime import HOT_SECONDS, Behaviour
from tests.world.world import World


def test_last_contact_of_a_lost_node_is_before_its_loss() -> None:
    with World(replicas=1) as world:
        world.do(commands.PassTime(20))
        (container,) = world.nodes.containers.values()
        assert world.nodes.last_contact(container, world.now) == world.now
        lost = world.now
        world.do(commands.LoseNode(container.node))
        world.do(commands.PassTime(10))
        assert world.nodes.last_contact(container, world.now) == lost - POLLED_SECONDS


def test_changes_during_the_loss_of_a_node_are_not_observed() -> None:
    with World(replicas=2, readiness={"onRecompiles": "CloseGate"}, **runs(Behaviour.COLD)) as world:
        world.do(commands.PassTime(21))
        (container, *_) = world.nodes.containers.values()
        assert container.serving
        world.do(commands.PassTime(container.instance.moved_at + HOT_SECONDS - world.now))
        world.do(commands.LoseNode(container.node))
        world.do(commands.PassTime(5))
        # Allow one unavailable pod, so that the operator is permitted to close a gate because of the pod's last report.
        world.do(commands.ChangeSpec({"rollout": {"maxUnavailable": 1}}))
        world.do(commands.PassTime(5))
        assert not list(no_gate_closes_without_evidence(world.history))


def test_new_pod_stays_gated_until_the_queue_has_room() -> None:
    with World(replicas=1) as world:
        world.do(commands.PassTime(20))
        world.do(commands.AdmitPods(1))
        world.do(commands.ChangeSpec({"replicas": 2}))
        world.do(commands.PassTime(10))
        assert len(world.nodes.containers) == 1
        (row,) = [row for row in world.resource["status"]["pods"] if not row["ready"]]
        assert row["phase"] == "SchedulingGated"
        world.do(commands.AdmitPods(2))
        world.do(commands.PassTime(2))
        assert len(world.nodes.containers) == 2
