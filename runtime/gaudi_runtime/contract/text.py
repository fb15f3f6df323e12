"""Text from other programs, made safe to show: one line without terminal control characters."""


def on_one_line(text: str) -> str:
    """Return text on one line: line breaks become blanks, unprintable characters are escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if char.isspace() else repr(char)[1:-1] for char in text)
