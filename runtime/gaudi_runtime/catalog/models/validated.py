"""Models that are published as validated on Gaudi. Deployments are compared with these models, but never rejected.

validated_models.csv contains, per model and card, tensor-parallel sizes, data types, and settings that were published
for a family. Source `plugin` is vllm-gaudi's own list (docs/getting_started/validated_models.md, commit 091bbadd of
August 2026). Sources 002 and 003 are lists of releases before the plugin. They are used for models that are not in the
plugin's list. Repositories have their current names.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class ValidatedModel:
    """A validated model on a card: tensor-parallel sizes, data types (bf16, fp16, fp8, int4), and settings by name."""

    model: str
    card: str
    tensor_sizes: tuple[int, ...]
    datatypes: tuple[str, ...]
    settings: dict[str, str]
    sources: tuple[str, ...]

    @property
    def is_in_plugin_list(self) -> bool:
        """Whether the plugin's own list has the model. Otherwise only a release before the plugin was validated."""
        return "plugin" in self.sources


_REMOVED = {
    "llama-3.2-11b-vision": "0.10.2",
    "llama-3.2-11b-vision-instruct": "0.10.2",
    "llama-3.2-90b-vision": "0.10.2",
    "llama-3.2-90b-vision-instruct": "0.10.2",
}
"""Models that were validated once, and the last release of vLLM with their architecture.

See vLLM's registry of models, previously supported: MllamaForConditionalGeneration."""


def last_release_for_validated_model(model: str) -> str | None:
    """Return the last vLLM release that serves a validated model.

    Return None unless newer releases dropped the model.
    """
    return _REMOVED.get(_normalize_name(model))


def validations_by_card(model: str) -> dict[str, ValidatedModel]:
    """Return the published validations of a model by card. The result is empty if no list has the model.

    `model` is a repository, with or without its owner, in upper or lower case.
    """
    return {entry.card: entry for entry in validated_models() if _normalize_name(entry.model) == _normalize_name(model)}


@cache
def validated_models() -> tuple[ValidatedModel, ...]:
    """Return all validated models, in the order of the file."""
    text = files("gaudi_runtime.catalog.models").joinpath("validated_models.csv").read_text(encoding="utf-8")
    return tuple(map(_parse_row, csv.DictReader(text.splitlines())))


def _parse_row(row: dict[str, str]) -> ValidatedModel:
    return ValidatedModel(
        model=row["model"],
        card=row["card"],
        tensor_sizes=tuple(map(int, row["tensor"].split())),
        datatypes=tuple(row["datatypes"].split()),
        settings=dict(setting.split("=", 1) for setting in row["settings"].split()),
        sources=tuple(row["sources"].split()),
    )


def _normalize_name(model: str) -> str:
    # Meta has renamed its models: Meta-Llama-3.1-8B is now Llama-3.1-8B.
    return model.rpartition("/")[2].lower().removeprefix("meta-")
