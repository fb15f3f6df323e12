"""Slots keep nodes of one machine apart."""

import os

from localcluster import network, slots
from localcluster.addresses import Addresses


def test_taken_slot_is_not_given_twice() -> None:
    first, first_lock = slots.take()
    second, second_lock = slots.take()
    assert first != second
    os.close(first_lock)
    os.close(second_lock)


def test_slot_of_an_ended_holder_is_given_again() -> None:
    first, lock = slots.take()
    os.close(lock)
    again, lock = slots.take()
    assert again == first
    os.close(lock)


def test_slot_of_another_is_not_ours_to_clear() -> None:
    slot, lock = slots.take()
    with slots.held(slot) as ours:
        assert not ours
    os.close(lock)


def test_slot_whose_link_exists_is_passed_over() -> None:
    free, lock = slots.take()
    os.close(lock)
    link = Addresses(free).link
    network.ip("link", "add", link, "type", "veth", "peer", "name", f"{link}-peer")
    try:
        other, lock = slots.take()
        os.close(lock)
    finally:
        network.remove_link(link)
    assert other != free
