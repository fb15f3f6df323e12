"""Reading the RuntimeConfig."""

from pathlib import Path

import pytest

from gaudi_runtime.contract.config import ServingConfig
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.serve import read_config, serve_ports_of_invalid_config
from tests.unit.runtime.configs import sim_config


def written(folder: Path, text: str) -> Path:
    file = folder / "config.json"
    file.write_text(text)
    return file


def test_config_file_reads_back_as_written(tmp_path: Path) -> None:
    config = sim_config()
    assert read_config(written(tmp_path, config.model_dump_json(by_alias=True))) == config


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.json cannot be read: No such file or directory\."):
        read_config(tmp_path / "none.json")


def test_every_wrong_field_is_reported(tmp_path: Path) -> None:
    file = written(tmp_path, '{"model": {"path": "/"}, "typo": 1}')
    with pytest.raises(ConfigError) as wrong:
        read_config(file)
    assert "model.servedNames: Field required" in str(wrong.value)
    assert "typo: Extra inputs are not permitted" in str(wrong.value)


def test_every_wrong_setting_is_reported(tmp_path: Path) -> None:
    config = sim_config()
    wrong = config.model_copy(update={"engine": config.engine.model_copy(update={"settings": {"LOG_LEVEL_ALL": "9"}})})
    with pytest.raises(ConfigError, match=r"engine\.settings: LOG_LEVEL_ALL is '9': .*\.$"):
        read_config(written(tmp_path, wrong.model_dump_json(by_alias=True)))


def test_invalid_json_is_reported_with_a_message(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="document: Invalid JSON"):
        read_config(written(tmp_path, "{"))


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"serving": {"statusPort": 0}}', '{"serving": 3}'])
def test_ports_of_an_unreadable_config_are_the_defaults(tmp_path: Path, text: str) -> None:
    assert serve_ports_of_invalid_config(written(tmp_path, text)) == ServingConfig()


def test_ports_are_read_from_a_config_with_other_faults(tmp_path: Path) -> None:
    file = written(tmp_path, '{"serving": {"statusPort": 9}, "engine": 3}')
    assert serve_ports_of_invalid_config(file).status_port == 9
