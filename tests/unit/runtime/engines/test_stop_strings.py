"""The end of a text stream at a stop string, for text pieces of any engine."""

from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.engines.stop_strings import StopStrings


def stream(pieces: list[str], stops: list[str]) -> str:
    watch, out = StopStrings(stops), ""
    for piece in pieces:
        out += watch.push(piece)
        if watch.stopped:
            return out
    return out + watch.flush()


def cut(text: str, stops: list[str]) -> str:
    return text[: min([text.find(stop) for stop in stops if stop in text], default=len(text))]


def test_text_is_returned_immediately_without_stop_strings() -> None:
    assert StopStrings(()).push("abc") == "abc"


def test_beginning_of_a_stop_string_is_held_back() -> None:
    watch = StopStrings(("stop",))
    assert [watch.push("a st"), watch.push("ar")] == ["a ", "star"]


def test_stop_string_across_pieces_is_found() -> None:
    assert stream(["hello st", "op world"], ["stop"]) == "hello "


# The stream receives one character at a time. If two stop strings end at the same position, the stop string that starts
# earlier is used.
@given(st.text("ab"), st.lists(st.text("ab", min_size=1, max_size=3), max_size=2))
def test_stream_ends_at_the_first_complete_stop_string(text: str, stops: list[str]) -> None:
    ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
    expected = cut(text[: min(ends)], stops) if ends else text
    assert stream(list(text), stops) == expected
