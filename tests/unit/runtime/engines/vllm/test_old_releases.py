"""Each supported release has every name that the adapter imports, where it looks for it (data: vllm_names.json)."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from gaudi_runtime.catalog.pairs import PAIRS
from gaudi_runtime.engines.vllm.old_releases import FROM_0_29, TO_0_28, Layout, layout_of
from gaudi_runtime.engines.vllm.versions import installed_release
from tests.unit.runtime.engines.vllm.vllm_names import CALLED, MOVED, Names, imported, names_in

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
"""What we pass, by position or by name."""


def chosen(names: Names) -> Layout:
    """The layout of a release with these modules."""
    return layout_of(lambda package: any(module.startswith(f"{package}.") for module in names))


def looked_for(layout: Layout) -> set[tuple[str, str]]:
    """Module and name of all that the adapter takes from a release with this layout."""
    modules = {layout.arguments, layout.app, layout.state}
    return imported() | CALLED | {(module, name) for module, name in MOVED if module in modules}


def test_the_releases_that_are_driven_are_recorded() -> None:
    assert {pair.vllm for pair in PAIRS} == RECORD.keys()


def test_the_layout_is_chosen_by_what_a_release_has() -> None:
    assert {release: chosen(names) for release, names in RECORD.items()} == {
        "0.26.0": TO_0_28,
        "0.30.0": FROM_0_29,
    }


@EVERY_RELEASE
def test_every_name_is_where_the_adapter_looks_for_it(release: str) -> None:
    names = RELEASES[release]
    found = {(module, name) for module, each in names.items() for name in each}
    assert looked_for(chosen(names)) - found == set()


@EVERY_RELEASE
def test_every_function_takes_what_the_adapter_passes(release: str) -> None:
    taken = {name: told for each in RELEASES[release].values() for name, told in each.items() if name in PASSED}
    assert taken.keys() == PASSED.keys()
    for name, told in taken.items():
        assert told is not None
        needed = [each for each in told if not each.endswith("=")]
        assert set(needed) <= set(PASSED[name]) <= {each.rstrip("=") for each in told}, name


def test_the_record_is_what_the_installed_release_has() -> None:
    assert RECORD.get(installed_release(), HERE) == HERE
