"""Models that are published as validated on Gaudi: what a deployment is compared with, never what it is refused for.

validated_models.csv holds, per model and card, the tensor parallel sizes and datatypes of the lists in logs 002 and
003 (of older releases of vLLM; models by their present repositories), and settings that were published for a family.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Validated:
    """A model on a card: sizes of tensor parallelism, datatypes (bf16, fp16, fp8, int4), settings by name."""

    model: str
    card: str
    tensor: tuple[int, ...]
    datatypes: tuple[str, ...]
    settings: dict[str, str]
    sources: tuple[str, ...]


def validated(model: str) -> dict[str, Validated]:
    """What is published of a model, by card; empty for one that is in no list.

    `model` is a repository with or without its owner, in any case.
    """
    return {each.card: each for each in validated_models() if _plain(each.model) == _plain(model)}


@cache
def validated_models() -> tuple[Validated, ...]:
    """All rows, in the order of the file."""
    text = files("gaudi_runtime.catalog.models").joinpath("validated_models.csv").read_text(encoding="utf-8")
    return tuple(map(_row, csv.DictReader(text.splitlines())))


def _row(row: dict[str, str]) -> Validated:
    return Validated(
        model=row["model"],
        card=row["card"],
        tensor=tuple(map(int, row["tensor"].split())),
        datatypes=tuple(row["datatypes"].split()),
        settings=dict(pair.split("=", 1) for pair in row["settings"].split()),
        sources=tuple(row["sources"].split()),
    )


def _plain(model: str) -> str:
    # Meta's models have been renamed: Meta-Llama-3.1-8B is Llama-3.1-8B now.
    return model.rpartition("/")[2].lower().removeprefix("meta-")
