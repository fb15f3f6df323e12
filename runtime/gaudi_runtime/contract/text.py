"""Text from users and other programs, made safe to show: one line without terminal control characters."""

MAX_QUOTED = 80


def on_one_line(text: str) -> str:
    """Return text on one line: line breaks become blanks, unprintable characters are escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if char.isspace() else repr(char)[1:-1] for char in text)


def quoted(text: str) -> str:
    """Return text of a user as a sentence quotes it, shortened to 80 characters and two dots.

    Unprintable characters are escaped as in Python, because a terminal would interpret some of them.
    """
    first = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text[:MAX_QUOTED])
    return first if len(text) <= MAX_QUOTED else f"{first}.."
