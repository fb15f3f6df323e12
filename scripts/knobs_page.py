"""Writes docs/reference/knobs.md: knobs_page.md, the knobs of engine.settings, and what replaces other knobs.

`python -m scripts.knobs_page` writes the page. With `--check`, it fails if the page differs.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from gaudi_runtime.knobs.table import FLAG, Knob, KnobHome, KnobType, format_knob_values, knobs
from scripts.generated import ROOT, write_or_check

PAGE = ROOT / "docs" / "reference" / "knobs.md"

_TYPES = {KnobType.INT: "integer", KnobType.FLOAT: "number", KnobType.JSON: "JSON", KnobType.PATH: "absolute path"}


def render_page() -> str:
    """Return the complete page of knobs in Markdown."""
    introduction = Path(__file__).with_suffix(".md").read_text()
    return "\n".join(
        [
            introduction.format(total=len(knobs())),
            "## Set in engine.settings\n",
            _settings_table([knob for knob in knobs().values() if knob.home is KnobHome.SETTINGS]),
            "## Refused, with what to set instead\n",
            _replacements(),
        ]
    )


def _settings_table(settings: list[Knob]) -> str:
    lines = ["| knob | value (default) | meaning |", "|---|---|---|"]
    for group in dict.fromkeys(knob.group for knob in settings):
        # Do not use `capitalize()`, because it changes "MoE" to "Moe".
        lines.append(f"| **{group[0].upper()}{group[1:]}** | | |")
        lines += [
            f"| `{knob.name}` | {_allowed_values(knob)}{_default(knob)} | {' '.join(_remarks(knob))} |"
            for knob in settings
            if knob.group == group
        ]
    return "\n".join(lines) + "\n"


def _replacements() -> str:
    """Return a table with a row for each field or setting, and the names of the knobs that it replaces."""
    rows: dict[str, list[str]] = {}
    for knob in knobs().values():
        for replacement in knob.use:
            rows.setdefault(replacement, []).append(f"`{knob.name}`")
    return "| set | instead of |\n|---|---|\n" + "".join(
        f"| `{replacement}` | {', '.join(names)} |\n" for replacement, names in rows.items()
    )


def _allowed_values(knob: Knob) -> str:
    if knob.type is KnobType.BOOL or knob.range == FLAG:
        return "boolean"
    if knob.type is KnobType.ENUM or (knob.type is KnobType.LIST and len(knob.choices) > 1):
        return ", ".join(f"`{choice}`" for choice in knob.choices)
    bounds = f" {knob.range}" if any(bound is not None for bound in knob.bounds) else ""
    return _TYPES.get(knob.type, "text") + bounds


def _default(knob: Knob) -> str:
    return "" if knob.default in {"unset", "none"} else f" ({knob.default})"


def _remarks(knob: Knob) -> Iterator[str]:
    yield knob.meaning
    if knob.needs:
        yield f"Only with {', '.join(f'{key} {format_knob_values(key, *words)}' for key, words in knob.needs.items())}."
    if knob.plan_effects:
        yield f"Plan: {', '.join(knob.plan_effects)}."


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: render_page()}))
