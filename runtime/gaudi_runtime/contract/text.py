"""Text from users and other programs, made safe to display: one line without terminal control characters."""

MAX_QUOTED = 80


def make_one_line(text: str) -> str:
    """Return text on one line. Line breaks become spaces; unprintable characters are escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if char.isspace() else repr(char)[1:-1] for char in text)


def safe_excerpt(text: str) -> str:
    """Return a user's text as a quotation for a sentence, shortened to 80 characters and two dots.

    Unprintable characters are escaped as in Python, because a terminal could interpret them.
    """
    prefix = "".join(character if character.isprintable() else repr(character)[1:-1] for character in text[:MAX_QUOTED])
    return prefix if len(text) <= MAX_QUOTED else f"{prefix}.."
