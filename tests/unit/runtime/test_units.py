"""Sizes in bytes and counted nouns as text."""

import pytest

from gaudi_runtime.units import GIB, MIB, format_bytes, format_gib, plural


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (int(55.43 * GIB), "55.43 GiB"),
        (int(4.755 * GIB), "4.755 GiB"),
        (int(39.2 * GIB), "39.2 GiB"),
        (504 * MIB, "504 MiB"),
        (int(161.9 * MIB), "161.9 MiB"),
        (-252 * 1024, "-252 KiB"),
        (0, "0 B"),
    ],
)
def test_sizes_are_written_as_in_the_logs_of_public_servers(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_gib_always_has_two_decimals() -> None:
    assert [format_gib(count) for count in (int(14.032 * GIB), 5 * MIB, -GIB)] == ["14.03 GiB", "0.00 GiB", "-1.00 GiB"]


@pytest.mark.parametrize(
    ("text", "words"),
    [(plural(1, "replica"), "1 replica"), (plural(0, "pod"), "0 pods"), (plural(2, "copy", "copies"), "2 copies")],
)
def test_noun_is_plural_unless_the_count_is_one(text: str, words: str) -> None:
    assert text == words
