"""Words of somebody else, made fit for people: one line, and no order to the terminal that shows it."""


def on_one_line(text: str) -> str:
    """Line breaks are blanks; what else cannot be printed is shown as Python writes it, `\\x1b` for an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if char.isspace() else repr(char)[1:-1] for char in text)
