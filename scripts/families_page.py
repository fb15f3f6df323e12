"""Writes docs/reference/families.md: what is proved for each family of models, and what is restricted.

`python -m scripts.families_page` writes the page. With `--check`, it fails if the page differs.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from gaudi_runtime.catalog.layer_types import LayerKinds, find_layer_kinds, layer_kinds_of_shape
from gaudi_runtime.catalog.models.known import known_shape
from gaudi_runtime.catalog.models.validated import validated_models
from scripts.generated import ROOT, write_or_check
from tests.plugin.families import FAMILIES

PAGE = ROOT / "docs" / "reference" / "families.md"
DENSE = ("llama", "qwen3")
"""Families that tests/plugin/test_engine.py runs."""
RESTRICTIONS = {
    "is_mixed": "`VLLM_CONTIGUOUS_PA` is switched off, because layers are of several kinds",
    "has_gated_delta_nets": "`engine.prefixCaching` is refused with vllm-gaudi below 0.30",
}
"""What each kind of layers restricts, by the field of LayerKinds."""
JOINT = "with `parallelism.data` above 1, prompts must have no [context](../internals/planning.md#joint-batches)"


def render_page() -> str:
    """Return the complete page in Markdown."""
    kinds = {family: LayerKinds() for family in DENSE} | {
        shape.family: layer_kinds_of_shape(shape) for each in validated_models() if (shape := known_shape(each.model))
    }
    kinds |= {family: _kinds_of_test(family) for family in FAMILIES}
    run = {*FAMILIES, *DENSE}
    introduction = Path(__file__).with_suffix(".md").read_text().rstrip()
    lines = [introduction.format(run=_names(sorted(run)))]
    rest = _names(sorted(kinds.keys() - run))
    lines += ["", f"**Only planned**, from `config.json`, for models that are validated on Gaudi: {rest}.", ""]
    lines += ["| restriction | families |", "|---|---|"]
    for field, text in RESTRICTIONS.items():
        lines.append(f"| {text} | {_names(sorted(each for each in kinds if getattr(kinds[each], field)))} |")
    lines.append(f"| {JOINT} | all with a mixture of experts |")
    return "\n".join([*lines, ""])


def _names(families: Iterable[str]) -> str:
    return ", ".join(f"`{family}`" for family in families)


def _kinds_of_test(family: str) -> LayerKinds:
    _, fields = FAMILIES[family]
    return find_layer_kinds(family, fields.get("layer_types", ()))


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: render_page()}))
