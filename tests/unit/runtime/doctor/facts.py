"""Facts about a complete machine and image. Each test changes one fact."""

from dataclasses import replace
from typing import Any

from gaudi_runtime.doctor.checks import EVERY_ENGINE, DoctorCheckResult, run_doctor_checks
from gaudi_runtime.doctor.facts import DoctorFacts, ImageFacts, MachineFacts, PackageFacts
from gaudi_runtime.doctor.gaudi_facts import Card, GaudiFacts

GIB = 1024**3
IMAGE = ImageFacts(
    torch=PackageFacts("2.13.0"),
    vllm=PackageFacts("0.30.0"),
    any_vllm=False,
    bridge="",
    plugin="",
    compiler="g++ 12.2.0",
    python_headers=True,
    read_only=(),
)
MACHINE = MachineFacts(
    cards=(),
    instructions=frozenset({"avx2", "avx512f"}),
    cores=8,
    memory=64 * GIB,
    shared_memory=GIB,
    locked_memory=8 * 1024**2,
)
CARD_IMAGE = replace(
    IMAGE,
    torch=PackageFacts("2.11.0"),
    vllm=PackageFacts("0.26.0"),
    bridge="1.24.1.17",
    plugin="0.26.0",
)
GAUDI = GaudiFacts("1.24.1-f8bd3a2", tuple(Card(f"0000:{at}3:00.0", (7, 9)) for at in range(8)))
CARD_MACHINE = replace(MACHINE, cards=("GAUDI3",) * 8, locked_memory=None, gaudi=GAUDI)
ON_CPU, ON_CARDS = DoctorFacts(IMAGE, MACHINE), DoctorFacts(CARD_IMAGE, CARD_MACHINE)


def row_of(topic: str, facts: DoctorFacts = ON_CPU, /, **changes: Any) -> DoctorCheckResult:
    """Return the row of `topic` for facts with `changes`. A change names a field of the image or the machine."""
    assert facts.machine
    image = {name: value for name, value in changes.items() if hasattr(facts.image, name)}
    machine = {name: value for name, value in changes.items() if hasattr(facts.machine, name)}
    spoilt = DoctorFacts(replace(facts.image, **image), replace(facts.machine, **machine))
    (row,) = [each for each in run_doctor_checks(spoilt, EVERY_ENGINE) if each.topic == topic]
    return row
