"""Whether what was found is enough, as a list of rows; pure (docs/doctor.md)."""

from collections.abc import Iterable
from dataclasses import replace

from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.doctor import image_rows, machine_rows
from gaudi_runtime.doctor.facts import Facts, ImageFacts
from gaudi_runtime.doctor.row import Row, State


def judge(facts: Facts, engines: frozenset[EngineName]) -> list[Row]:
    """All rows, the image's first. What only other engines than `engines` need is a warning at most."""
    rows = [rule(facts.image) for rule in image_rows.RULES]
    if facts.machine:
        rows += [rule(facts.machine, facts.image) for rule in machine_rows.RULES]
    return [_for_engines(row, engines) for row in rows]


def healthy(rows: Iterable[Row]) -> bool:
    """Whether nothing fails."""
    return all(row.state is not State.FAIL for row in rows)


def installed_engines(image: ImageFacts) -> frozenset[EngineName]:
    """The engines whose packages are there; the simulation always is."""
    found = {EngineName.SIM: "always", EngineName.TORCH: image.torch.version, EngineName.VLLM: image.vllm.version}
    return frozenset(name for name, version in found.items() if version)


def _for_engines(row: Row, engines: frozenset[EngineName]) -> Row:
    spared = row.state is State.FAIL and not row.needed_by & engines
    return replace(row, state=State.WARNING) if spared else row
