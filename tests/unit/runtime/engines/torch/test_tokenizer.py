"""The torch engine's tokenizer: chat templates, and the text of a stream up to its stop string."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.make_tiny_checkpoint import make_tokenizer
from gaudi_runtime.engines.torch.tokenizer import Detokenizer, TransformersTokenizer

TOKENIZER = make_tokenizer()


def encode(text: str) -> list[int]:
    return [int(token) for token in TOKENIZER(text)["input_ids"]]


def letters(text: str) -> list[int]:
    """Return one token per letter."""
    return [token for letter in text for token in encode(letter)]


def decode(tokens: list[int]) -> str:
    return str(TOKENIZER.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def pieces(tokens: list[int], *stop: str) -> list[str]:
    """Return the text that each token releases, and the text that the end of the answer releases."""
    detokenizer = Detokenizer(decode, stop)
    shown = []
    for token in tokens:
        shown.append(detokenizer.push(token))
        if detokenizer.is_stopped:
            return shown
    return [*shown, detokenizer.flush()]


@given(st.lists(st.integers(0, 511), max_size=40))
def test_joined_pieces_equal_the_decoded_tokens(tokens: list[int]) -> None:
    assert "".join(pieces(tokens)) == decode(tokens)


# Leave out texts with special tokens, because the tokenizer removes special tokens from its output. Hypothesis would
# otherwise generate such texts, because it takes string constants from imported modules.
@given(st.text(max_size=30).filter(lambda text: not set(encode(text)) & set(TOKENIZER.all_special_ids)))
def test_joined_pieces_equal_the_encoded_text(text: str) -> None:
    assert "".join(pieces(encode(text))) == text


@given(st.text(alphabet="abc", max_size=30), st.text(alphabet="abc", min_size=1, max_size=4))
def test_text_ends_before_the_stop_string(text: str, stop: str) -> None:
    assert "".join(pieces(encode(text), stop)) == text.split(stop)[0]


def test_text_ends_at_the_first_complete_stop_string() -> None:
    assert pieces(letters("axyzb"), "axyzb", "y") == ["", "", "ax"]


def test_character_of_several_tokens_is_returned_in_one_piece() -> None:
    tokens = encode("𝄞")
    assert len(tokens) > 1
    assert pieces(tokens) == [""] * (len(tokens) - 1) + ["𝄞", ""]


def test_start_of_a_stop_string_is_held_back() -> None:
    assert pieces(letters("axyb"), "xyz") == ["a", "", "", "xyb", ""]


def test_stop_string_across_tokens_ends_the_text() -> None:
    assert pieces(letters("axyzb"), "xyz") == ["a", "", "", ""]


def test_incomplete_stop_string_is_returned_at_the_end() -> None:
    assert pieces(letters("axy"), "xyz") == ["a", "", "", "xy"]


def test_chat_template_ends_with_the_assistant_header(checkpoint: Path) -> None:
    tokenizer = TransformersTokenizer(checkpoint)
    tokens = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}])
    assert TOKENIZER.decode(tokens) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


def test_messages_that_the_template_cannot_use_are_refused(checkpoint: Path) -> None:
    tokenizer = TransformersTokenizer(checkpoint)
    with pytest.raises(ValueError, match="chat template rejects these messages: content must be text"):
        tokenizer.apply_chat_template([{"role": "user", "content": 7}])
