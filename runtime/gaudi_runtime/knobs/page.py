"""The page docs/reference/knobs.md: introduction.md, followed by one section per group and one row per knob."""

from collections.abc import Iterator
from importlib.resources import files

from gaudi_runtime.knobs.table import ENGINE, Home, Knob, Status, Type, format_values, knobs
from gaudi_runtime.knobs.values import FLAG, expectation

_HOMES = (
    (Home.FIELD, "Set by fields", ("knob", "field", "default", "plan", "meaning")),
    (Home.SETTINGS, "Set in engine.settings", ("knob", "value", "default", "plan", "meaning")),
    (Home.REFUSED, "Refused", ("knob", "why", "instead", "meaning")),
)
_WHY = {
    Status.DEPRECATED: "deprecated",
    Status.V0_ONLY: "old engine only",
    Status.DEVELOPER: "for developers",
    Status.OWNED: "owned",
    Status.UNSUPPORTED: "cannot work",
}


def page() -> str:
    """Return the complete page of knobs in Markdown."""
    introduction = files(__package__).joinpath("introduction.md").read_text(encoding="utf-8")
    return "\n".join([introduction.format(total=len(knobs())), *(_part(*each) for each in _HOMES)])


def _part(home: Home, title: str, columns: tuple[str, ...]) -> str:
    mine = [knob for knob in knobs().values() if knob.home is home]
    groups = dict.fromkeys(knob.group for knob in mine)
    sections = (_table(group, columns, [knob for knob in mine if knob.group == group]) for group in groups)
    return "\n".join([f"## {title}\n\n{len(mine)} knobs.\n", *sections])


def _table(group: str, columns: tuple[str, ...], rows: list[Knob]) -> str:
    # Do not use `capitalize()`, because it changes "MoE" to "Moe".
    head = [f"### {group[0].upper()}{group[1:]}", "", f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    return "\n".join([*head, *(f"| {' | '.join(_cells(knob))} |" for knob in rows)]) + "\n"


def _cells(knob: Knob) -> Iterator[str]:
    yield f"`{knob.name}`"
    if knob.home is Home.FIELD:
        yield "<br>".join(f"`{path}`" for path in knob.use)
        yield knob.default
        yield ", ".join(knob.plan)
    elif knob.home is Home.SETTINGS:
        yield _value(knob)
        yield knob.default
        yield ", ".join(knob.plan)
    else:
        yield _WHY[knob.status]
        yield ", ".join(f"`{each}`" for each in knob.use) or "nothing"
    yield knob.meaning + _needs(knob)


def _value(knob: Knob) -> str:
    if knob.type is Type.ENUM:
        return ", ".join(f"`{word}`" for word in knob.words)
    return "`true` or `false`" if knob.type is Type.BOOL or knob.range == FLAG else expectation(knob)


def _needs(knob: Knob) -> str:
    needs = "".join(f" Only with {key} {format_values(key, *words)}." for key, words in knob.needs.items())
    idle = knob.home is Home.SETTINGS and knob.reader not in ENGINE
    return needs + (f" No effect here: for the {knob.reader}." if idle else "")
