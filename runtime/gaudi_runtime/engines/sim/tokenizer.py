"""A tokenizer whose tokens are the bytes of UTF-8, so that every text has tokens and no file is read."""

from collections.abc import Sequence


class ByteTokenizer:
    """Text to bytes and back."""

    def encode(self, text: str) -> list[int]:
        """One token per byte; an empty text is one space, because a prompt needs a token."""
        return list(text.encode() or b" ")

    def apply_chat_template(self, messages: Sequence[dict[str, object]]) -> list[int]:
        """`role: content` lines, then the assistant's opening. ValueError when the first speaker is the assistant."""
        if messages[0]["role"] == "assistant":
            raise ValueError("a conversation cannot begin with the assistant")
        lines = "".join(f"{message['role']}: {message['content']}\n" for message in messages)
        return self.encode(f"{lines}assistant:")
