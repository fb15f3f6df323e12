"""What somebody wrote, inside a sentence about it: an error message is for reading, however much was written."""

MAX_QUOTED = 80


def quoted(text: str) -> str:
    """`text` as it is, or its first 80 characters and two dots."""
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}.."
