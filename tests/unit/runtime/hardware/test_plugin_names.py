"""The plugin's names that we use are found in the plugin's source text."""

from pathlib import Path

import pytest

from gaudi_runtime.engines.vllm.workers import capabilities
from gaudi_runtime.engines.vllm.workers.capabilities import PluginName
from gaudi_runtime.hardware.plugin_names import USED, look_up_names
from gaudi_runtime.hardware.report import PluginNameCheck

TEXT = """
class Warm:
    def warmup_model(self):
        self.graphed_buckets = set()

class HPUModelRunner(Warm):
    use_hpu_graph: bool
    def __init__(self):
        self.block_size = 128
    def _use_graphs(self, attn, size):
        pass
    def _check_config(self, batch_size):
        pass
    def warmup_sampler(self, *, verbose):
        pass
"""


@pytest.fixture
def found(tmp_path: Path) -> dict[str, PluginNameCheck]:
    (tmp_path / "runner.py").write_text(TEXT)
    return {each.name: each for each in look_up_names(tmp_path) if each.owner == "HPUModelRunner"}


def test_attribute_set_by_a_method_is_found(found: dict[str, PluginNameCheck]) -> None:
    assert found["block_size"].fits


def test_declared_attribute_is_found(found: dict[str, PluginNameCheck]) -> None:
    assert found["use_hpu_graph"].fits


def test_name_of_a_base_class_is_found(found: dict[str, PluginNameCheck]) -> None:
    assert found["warmup_model"].fits
    assert found["graphed_buckets"].fits


def test_parameters_with_other_names_match(found: dict[str, PluginNameCheck]) -> None:
    assert found["_use_graphs"].fits
    assert found["_use_graphs"].found == ("attn", "size")


def test_fewer_parameters_do_not_match(found: dict[str, PluginNameCheck]) -> None:
    assert (found["_check_config"].there, found["_check_config"].fits) == (True, False)


def test_keyword_only_parameter_does_not_match(found: dict[str, PluginNameCheck]) -> None:
    assert not found["warmup_sampler"].fits


def test_undefined_name_is_missing(found: dict[str, PluginNameCheck]) -> None:
    assert not found["bucketing_manager"].there


def test_every_name_that_the_engine_uses_is_checked() -> None:
    groups = [each for each in vars(capabilities).values() if isinstance(each, tuple)]
    asked = {name for group in groups for name in group if isinstance(name, PluginName)}
    assert asked == {name for names in USED.values() for name in names}
