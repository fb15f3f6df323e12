"""Each supported release has every name that the adapter imports at the expected place (data: vllm_names.json)."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from gaudi_runtime.catalog.release_pairs import PAIRS
from gaudi_runtime.engines.vllm.moved_modules import FROM_0_29, TO_0_28, Layout, choose_layout
from gaudi_runtime.engines.vllm.versions import installed_release
from tests.unit.runtime.engines.vllm.vllm_names import CALLED, MOVED, Names, imported_names, names_in

RECORD: dict[str, Names] = json.loads((Path(__file__).parents[4] / "data" / "vllm_names.json").read_text())
SPEC = find_spec("vllm")
HERE = names_in(Path(str(SPEC and SPEC.origin)).parents[1])
RELEASES = {**RECORD, "installed": HERE}
EVERY_RELEASE = pytest.mark.parametrize("release", RELEASES)
PASSED = {
    "make_arg_parser": ["parser"],
    "build_app": ["args", "supported_tasks", "model_config"],
    "init_app_state": ["engine_client", "state", "args", "supported_tasks"],
    "EngineArgs.from_cli_args": ["args"],
    "EngineArgs.create_engine_config": ["usage_context", "headless"],
    "AsyncLLM.from_engine_args": ["engine_args", "usage_context"],
    "AsyncLLM.collective_rpc": ["method", "args"],
    "AsyncLLM.get_supported_tasks": [],
    "AsyncMPClient._call_utility_async": ["method", "engine"],
    "MultiprocExecutor.__init__": ["vllm_config"],
    "CompilationTimes": ["language_model", "encoder"],
    "_run_in_subprocess": ["fn"],
}
"""The arguments that we pass, by position or by name."""


def recorded_layout(names: Names) -> Layout:
    """Return the layout of a release with these modules."""
    return choose_layout(lambda package: any(module.startswith(f"{package}.") for module in names))


def required_names(layout: Layout) -> set[tuple[str, str]]:
    """Return module and name of everything that the adapter uses from a release with this layout."""
    modules = {layout.arguments, layout.app, layout.state}
    return imported_names() | CALLED | {(module, name) for module, name in MOVED if module in modules}


def test_every_supported_release_is_recorded() -> None:
    assert {pair.vllm for pair in PAIRS} == RECORD.keys()


def test_layout_is_selected_by_the_modules_of_a_release() -> None:
    assert {release: recorded_layout(names) for release, names in RECORD.items()} == {
        "0.26.0": TO_0_28,
        "0.30.0": FROM_0_29,
    }


@EVERY_RELEASE
def test_every_required_name_exists_in_the_release(release: str) -> None:
    names = RELEASES[release]
    found = {(module, name) for module, each in names.items() for name in each}
    assert required_names(recorded_layout(names)) - found == set()


@EVERY_RELEASE
def test_every_function_accepts_the_adapters_arguments(release: str) -> None:
    taken = {
        name: parameters for each in RELEASES[release].values() for name, parameters in each.items() if name in PASSED
    }
    assert taken.keys() == PASSED.keys()
    for name, parameters in taken.items():
        assert parameters is not None
        needed = [each for each in parameters if not each.endswith("=")]
        assert set(needed) <= set(PASSED[name]) <= {each.rstrip("=") for each in parameters}, name


def test_record_equals_the_installed_release() -> None:
    assert RECORD.get(installed_release(), HERE) == HERE
