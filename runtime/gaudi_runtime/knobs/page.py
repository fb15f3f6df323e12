"""The page docs/reference/knobs.md: introduction.md, followed by one section per group and one row per knob."""

from collections.abc import Iterator
from importlib.resources import files

from gaudi_runtime.knobs.table import Knob, KnobHome, KnobStatus, KnobType, format_values, knobs
from gaudi_runtime.knobs.values import FLAG, describe_valid_values

_HOMES = (
    (KnobHome.FIELD, "Set by fields", ("knob", "field", "default", "plan", "meaning")),
    (KnobHome.SETTINGS, "Set in engine.settings", ("knob", "value", "default", "plan", "meaning")),
    (KnobHome.REFUSED, "Refused", ("knob", "why", "instead", "meaning")),
)
_WHY = {
    KnobStatus.DEPRECATED: "deprecated",
    KnobStatus.V0_ONLY: "old engine only",
    KnobStatus.DEVELOPER: "for developers",
    KnobStatus.OWNED: "owned",
    KnobStatus.UNSUPPORTED: "cannot work",
    KnobStatus.UNUSED: "no effect here",
}


def render_page() -> str:
    """Return the complete page of knobs in Markdown."""
    introduction = files(__package__).joinpath("introduction.md").read_text(encoding="utf-8")
    return "\n".join([introduction.format(total=len(knobs())), *(_home_section(*section) for section in _HOMES)])


def _home_section(home: KnobHome, title: str, columns: tuple[str, ...]) -> str:
    home_knobs = [knob for knob in knobs().values() if knob.home is home]
    groups = dict.fromkeys(knob.group for knob in home_knobs)
    sections = (_table(group, columns, [knob for knob in home_knobs if knob.group == group]) for group in groups)
    return "\n".join([f"## {title}\n\n{len(home_knobs)} knobs.\n", *sections])


def _table(group: str, columns: tuple[str, ...], rows: list[Knob]) -> str:
    # Do not use `capitalize()`, because it changes "MoE" to "Moe".
    head = [f"### {group[0].upper()}{group[1:]}", "", f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    return "\n".join([*head, *(f"| {' | '.join(_cells(knob))} |" for knob in rows)]) + "\n"


def _cells(knob: Knob) -> Iterator[str]:
    yield f"`{knob.name}`"
    if knob.home is KnobHome.FIELD:
        yield "<br>".join(f"`{path}`" for path in knob.use)
        yield knob.default
        yield ", ".join(knob.plan_effects)
    elif knob.home is KnobHome.SETTINGS:
        yield _allowed_values(knob)
        yield knob.default
        yield ", ".join(knob.plan_effects)
    else:
        yield _WHY[knob.status]
        yield ", ".join(f"`{replacement}`" for replacement in knob.use) or "nothing"
    yield knob.meaning + _needs_text(knob)


def _allowed_values(knob: Knob) -> str:
    if knob.type is KnobType.ENUM:
        return ", ".join(f"`{choice}`" for choice in knob.choices)
    return "`true` or `false`" if knob.type is KnobType.BOOL or knob.range == FLAG else describe_valid_values(knob)


def _needs_text(knob: Knob) -> str:
    return "".join(f" Only with {key} {format_values(key, *words)}." for key, words in knob.needs.items())
