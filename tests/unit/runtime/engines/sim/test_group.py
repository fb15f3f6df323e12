"""The combination of the answers of all ranks."""

from gaudi_runtime.engine_protocol.engine import DeviceMemory
from gaudi_runtime.engines.sim.group import largest_value, smallest_group_memory


def test_memory_of_a_group_is_the_minimum_over_ranks() -> None:
    assert smallest_group_memory(DeviceMemory(50, 100), [(40, 120), (60, 90)]) == DeviceMemory(40, 90)


def test_graph_bytes_of_a_group_are_the_maximum_over_ranks() -> None:
    assert largest_value(5, [7, 6]) == 7
