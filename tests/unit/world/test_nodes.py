"""What can be known of containers on nodes of the world in memory."""

from tests.world import commands
from tests.world.world import World


def test_nothing_is_heard_from_a_lost_node_after_its_loss() -> None:
    with World(replicas=1) as world:
        world.do(commands.PassTime(20))
        (container,) = world.nodes.containers.values()
        assert world.nodes.heard_at(container, world.now) == world.now
        lost = world.now
        world.do(commands.LoseNode(container.node))
        world.do(commands.PassTime(10))
        assert world.nodes.heard_at(container, world.now) == lost
