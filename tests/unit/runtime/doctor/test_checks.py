"""Each missing requirement causes a failure or a warning, with a remedy, for the engines that need it."""

from dataclasses import replace
from typing import Any

import pytest

from gaudi_runtime.catalog.release_pairs import CPU_RELEASE, PAIRS, RELEASES, ReleasePair
from gaudi_runtime.contract.config import EngineName
from gaudi_runtime.doctor.checks import (
    EVERY_ENGINE,
    DoctorCheckState,
    engines_to_check,
    no_check_failed,
    run_doctor_checks,
)
from gaudi_runtime.doctor.facts import DoctorFacts, PackageFacts
from gaudi_runtime.doctor.gaudi_facts import Card
from tests.unit.runtime.doctor.facts import CARD_IMAGE, GAUDI, GIB, IMAGE, MACHINE, ON_CARDS, ON_CPU, row_of

SIM, VLLM = EngineName.SIM, EngineName.VLLM
FAILS_ON_CPU: list[tuple[str, dict[str, Any], set[EngineName]]] = [
    ("torch", {"torch": PackageFacts()}, {VLLM}),
    ("torch", {"torch": PackageFacts("2.13.0", "ImportError: libcudart")}, {VLLM}),
    ("compiler", {"compiler": ""}, {VLLM}),
    ("compiler", {"python_headers": False}, {VLLM}),
    ("vllm", {"vllm": PackageFacts()}, {VLLM}),
    ("vllm", {"vllm": PackageFacts("0.31.0")}, {VLLM}),
    ("vllm", {"vllm": PackageFacts("0.30.0", "Failed to import from vllm._C: libnuma.so.1")}, {VLLM}),
    ("gaudi software", {"plugin": "0.26.0"}, {VLLM}),
    ("writable folders", {"read_only": ("TMPDIR=/tmp",)}, {VLLM}),
    ("processor", {"instructions": frozenset({"sse4_2"})}, {VLLM}),
    ("memory", {"memory": GIB}, {VLLM}),
    ("shared memory", {"shared_memory": 64 * 1024**2}, {VLLM}),
]
FAILS_ON_CARDS: list[tuple[str, dict[str, Any], set[EngineName]]] = [
    ("gaudi software", {"plugin": ""}, {VLLM}),
    ("vllm", {"vllm": PackageFacts("0.32.0"), "plugin": "0.32.0"}, {VLLM}),
    ("vllm", {"plugin": "0.30.0"}, {VLLM}),
    ("vllm", {"plugin": "", "any_vllm": True}, {VLLM}),
    ("device", {"cards": ()}, {VLLM}),
]
WARNINGS: list[tuple[str, DoctorFacts, dict[str, Any]]] = [
    ("vllm", ON_CPU, {"vllm": PackageFacts("0.31.0"), "any_vllm": True}),
    ("vllm", ON_CARDS, {"plugin": "0.30.0", "any_vllm": True}),
    ("processor", ON_CPU, {"instructions": frozenset({"avx2"})}),
    ("cores", ON_CPU, {"cores": 1}),
    ("compiler", ON_CARDS, {"compiler": ""}),
    ("gaudi software", ON_CARDS, {"bridge": "1.24.2.5"}),
    ("gaudi software", ON_CARDS, {"torch": PackageFacts("2.13.0")}),
    ("driver", ON_CARDS, {"gaudi": replace(GAUDI, driver="")}),
    ("driver", ON_CARDS, {"gaudi": replace(GAUDI, driver="1.22.0-740")}),
    ("driver", ON_CARDS, {"gaudi": replace(GAUDI, driver="1.24.2-17")}),
    ("ports between cards", ON_CARDS, {"gaudi": replace(GAUDI, cards=(Card("0000:03:00.0", (7, 9), (9,)),))}),
    ("locked memory", ON_CARDS, {"locked_memory": 64 * 1024}),
]
EVERY_PAIR = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.vllm)


@pytest.mark.parametrize("facts", [ON_CPU, ON_CARDS], ids=["cpu", "cards"])
def test_complete_machine_has_no_findings(facts: DoctorFacts) -> None:
    assert {(row.state, row.advice) for row in run_doctor_checks(facts, EVERY_ENGINE)} == {(DoctorCheckState.OK, "")}


@pytest.mark.parametrize(
    ("facts", "topic", "lack", "engines"),
    [*((ON_CPU, *each) for each in FAILS_ON_CPU), *((ON_CARDS, *each) for each in FAILS_ON_CARDS)],
)
def test_missing_requirement_fails_its_engines_with_a_remedy(
    facts: DoctorFacts, topic: str, lack: dict[str, Any], engines: set[EngineName]
) -> None:
    row = row_of(topic, facts, **lack)
    assert (row.state, row.needed_by) == (DoctorCheckState.FAIL, engines)
    assert row.advice.endswith((".", "=1."))


@pytest.mark.parametrize(("topic", "facts", "lack"), WARNINGS)
def test_performance_problem_is_a_warning_with_a_remedy(topic: str, facts: DoctorFacts, lack: dict[str, Any]) -> None:
    row = row_of(topic, facts, **lack)
    assert row.state is DoctorCheckState.WARNING
    assert row.advice.endswith(".")


def test_advice_for_an_unsupported_vllm_names_the_supported_release() -> None:
    row = row_of("vllm", vllm=PackageFacts("0.31.0"))
    assert row.found == "0.31.0"
    assert f"vLLM {CPU_RELEASE} " in row.advice


@EVERY_PAIR
def test_every_released_pair_is_supported_with_its_status(pair: ReleasePair) -> None:
    row = row_of("vllm", ON_CARDS, vllm=PackageFacts(pair.vllm), plugin=pair.plugin)
    assert (row.state, row.found) == (DoctorCheckState.OK, pair.description)


@EVERY_PAIR
@pytest.mark.parametrize("built", ["", "+hpu.1.gitabc"])
def test_matching_software_of_a_pair_passes(pair: ReleasePair, built: str) -> None:
    software = {"bridge": f"{pair.gaudi_software}.17", "torch": PackageFacts(pair.torch + built)}
    assert row_of("gaudi software", ON_CARDS, vllm=PackageFacts(pair.vllm), plugin=pair.plugin, **software).advice == ""


def test_other_torch_release_on_cards_names_the_right_image() -> None:
    row = row_of("gaudi software", ON_CARDS, torch=PackageFacts("2.13.0"))
    assert row.found == "habana-torch-plugin 1.24.1.17, vllm-gaudi 0.26.0, torch 2.13.0"
    assert row.advice == (
        "vllm-gaudi 0.26.0 is made for Gaudi software 1.24.1 and PyTorch 2.11.0. Build on "
        "vault.habana.ai/gaudi-docker/1.24.1/ubuntu24.04/habanalabs/vllm-0.26.0-ptupstream-2.11.0:latest."
    )


@pytest.mark.parametrize("lack", [{"vllm": PackageFacts("0.32.0")}, {"plugin": "0.30.0"}, {"plugin": ""}])
def test_image_without_a_released_pair_lists_the_pairs(lack: dict[str, Any]) -> None:
    assert RELEASES in row_of("vllm", ON_CARDS, **lack).advice


def test_vllm_that_fails_to_import_fails_despite_the_override() -> None:
    assert row_of("vllm", vllm=PackageFacts("0.31.0", "ImportError"), any_vllm=True).state is DoctorCheckState.FAIL


def test_equal_cards_are_reported_as_one_entry_with_their_count() -> None:
    assert row_of("device", ON_CARDS).found == "8 x HPU (GAUDI3)"


def test_read_only_folder_is_reported_with_its_variable() -> None:
    row = row_of("writable folders", read_only=("HF_HOME=/cache/huggingface",))
    assert row.found == "read-only: HF_HOME=/cache/huggingface"


def test_processor_with_unknown_instructions_passes() -> None:
    assert row_of("processor", instructions=frozenset()).state is DoctorCheckState.OK


@pytest.mark.parametrize(("topic", "lack", "needed_by"), FAILS_ON_CPU)
def test_requirement_of_an_unused_engine_is_a_warning(
    topic: str, lack: dict[str, Any], needed_by: set[EngineName]
) -> None:
    others = EVERY_ENGINE - needed_by
    image = replace(IMAGE, **{name: value for name, value in lack.items() if hasattr(IMAGE, name)})
    machine = replace(MACHINE, **{name: value for name, value in lack.items() if hasattr(MACHINE, name)})
    rows = run_doctor_checks(DoctorFacts(image, machine), frozenset(others))
    assert no_check_failed(rows)
    assert DoctorCheckState.WARNING in {row.state for row in rows if row.topic == topic}


def test_machine_with_one_failure_is_unhealthy() -> None:
    assert not no_check_failed(
        run_doctor_checks(DoctorFacts(replace(IMAGE, vllm=PackageFacts()), MACHINE), frozenset({VLLM}))
    )


def test_only_the_image_is_checked_without_a_machine() -> None:
    topics = [row.topic for row in run_doctor_checks(DoctorFacts(CARD_IMAGE, None), EVERY_ENGINE)]
    assert topics == ["torch", "compiler", "vllm", "gaudi software", "writable folders"]


@pytest.mark.parametrize(
    ("vllm", "expected"),
    [("", {SIM}), ("0.30.0", {SIM, VLLM})],
)
def test_installed_packages_determine_the_installed_engines(vllm: str, expected: set[EngineName]) -> None:
    assert engines_to_check(replace(IMAGE, vllm=PackageFacts(vllm))) == expected


def test_driver_row_names_the_pair_that_it_supports() -> None:
    row = row_of("driver", ON_CARDS, gaudi=replace(GAUDI, driver="1.24.2-17"))
    assert PAIRS[1].image in row.advice


def test_row_of_a_matching_driver_names_its_pair() -> None:
    assert row_of("driver", ON_CARDS).found == "1.24.1-f8bd3a2, which vLLM 0.26.0 with vllm-gaudi 0.26.0 requires"


def test_ports_that_are_down_are_reported_by_card_and_number() -> None:
    down = replace(GAUDI, cards=(Card("0000:03:00.0", (7, 9)), Card("0000:13:00.0", (7, 9), (7, 9))))
    assert row_of("ports between cards", ON_CARDS, gaudi=down).found == "0000:13:00.0: 7, 9 down"
