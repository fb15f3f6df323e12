"""The fetch as a step of start-up: the folder for the engine, and the report during the fetch."""

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from gaudi_runtime.artifacts.sources.fetch import fetch_model, fetch_repository, read_hub_access_for_fetch
from gaudi_runtime.contract.config import (
    AdapterConfig,
    EngineConfig,
    EngineName,
    HubRepositoryConfig,
    QuantizationConfig,
    QuantizationMethod,
    RuntimeConfig,
)
from gaudi_runtime.contract.report import Phase
from gaudi_runtime.errors import ConfigError, DiskFull, ModelUnreadable
from gaudi_runtime.process.signals import Stopped
from gaudi_runtime.report.report_board import ReportBoard
from tests.support.hub_server import COMMIT, REPO
from tests.unit.runtime.artifacts.sources.conftest import FILES, WEIGHTS, Site
from tests.unit.runtime.configs import sim_config


def config(site: Site, engine: EngineName) -> RuntimeConfig:
    """Return a configuration that names the hub's repository."""
    plain = sim_config()
    model = plain.model.model_copy(
        update={"path": str(site.root), "hub": HubRepositoryConfig(repo=REPO, revision=COMMIT)}
    )
    return plain.model_copy(update={"model": model, "engine": EngineConfig(name=engine)})


class Board(ReportBoard):
    """A board that records the warnings of every report."""

    def update(self, **changes: Any) -> None:
        super().update(**changes)
        self.warnings = [*getattr(self, "warnings", []), self.report().warnings]


class NoWait(threading.Event):
    """A stop event that is never set and whose waits take no time."""

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


@pytest.fixture
async def board(site: Site, monkeypatch: pytest.MonkeyPatch) -> Board:
    """A board, and the environment of a pod that fetches."""
    monkeypatch.setenv("HF_ENDPOINT", site.endpoint)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    return Board("0" * 64)


async def test_engine_gets_the_folder_of_the_snapshot(site: Site, board: Board) -> None:
    resolved = fetch_model(config(site, EngineName.VLLM), board, threading.Event())
    assert resolved.model.path == str(site.root / "tiny--model" / COMMIT)


async def test_report_shows_the_fetch_in_bytes(site: Site, board: Board) -> None:
    fetch_model(config(site, EngineName.VLLM), board, threading.Event())
    report, total = board.report(), sum(map(len, FILES.values()))
    assert report.phase is Phase.FETCHING
    assert report.fetch is not None
    assert (report.fetch.done_bytes, report.fetch.total_bytes, report.fetch.waiting) == (total, total, False)


async def test_every_piece_resets_the_stall_clock(site: Site, board: Board) -> None:
    moved: list[None] = []
    board.restart_stall_clock = lambda: moved.append(None)  # type: ignore[method-assign]
    hub = HubRepositoryConfig(repo=REPO, revision=COMMIT)
    fetch_repository(hub, site.root, None, board, threading.Event())
    assert len(moved) >= len(FILES)


async def test_token_is_read_from_the_environment(site: Site, board: Board) -> None:
    site.hub.token = "hf_secret"
    fetch_model(config(site, EngineName.VLLM), board, threading.Event())
    assert "hf_secret" not in board.report().model_dump_json()


async def test_token_may_end_with_a_newline(site: Site, board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret\n")
    site.hub.token = "hf_secret"
    fetch_model(config(site, EngineName.VLLM), board, threading.Event())


async def test_invalid_token_is_not_quoted(site: Site, board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_one\nhf_two")
    with pytest.raises(ConfigError) as raised:
        fetch_model(config(site, EngineName.VLLM), board, threading.Event())
    assert str(raised.value) == (
        "The access token in HF_TOKEN contains characters other than printable ASCII. Correct the Secret of the token."
    )


async def test_public_repository_is_fetched_without_a_token(
    site: Site, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    fetch_model(config(site, EngineName.VLLM), board, threading.Event())
    assert {authorization for _, _, authorization in site.hub.requests} == {None}


async def test_retry_is_a_warning_until_bytes_arrive(site: Site, board: Board) -> None:
    site.hub.statuses = [503]
    fetch_model(config(site, EngineName.VLLM), board, NoWait())
    assert any("HTTP 503" in each for warnings in board.warnings for each in warnings)
    assert board.warnings[-1] == ()


async def test_simulation_sends_no_request_to_the_hub(site: Site, board: Board) -> None:
    plain = config(site, EngineName.SIM)
    assert fetch_model(plain, board, threading.Event()) is plain
    assert site.hub.requests == []


async def test_image_without_the_hub_library_is_reported(
    site: Site, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gaudi_runtime.artifacts.sources.hub", None)
    with pytest.raises(ConfigError, match=r"^This image cannot fetch models from a hub: .*mount the checkpoint\.$"):
        fetch_model(config(site, EngineName.VLLM), board, threading.Event())


def mounted_config(folder: Path) -> RuntimeConfig:
    """Return a configuration whose checkpoint is on a volume."""
    plain = sim_config()
    model = plain.model.model_copy(update={"path": str(folder)})
    return plain.model_copy(update={"model": model, "engine": EngineConfig(name=EngineName.VLLM)})


async def test_truncated_checkpoint_on_a_volume_is_refused_before_loading(board: Board, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(WEIGHTS[:-1])
    with pytest.raises(ModelUnreadable, match=r"model\.safetensors is damaged"):
        fetch_model(mounted_config(tmp_path), board, threading.Event())


async def test_stop_ends_the_validation_of_a_mounted_checkpoint(board: Board, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(WEIGHTS)
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        fetch_model(mounted_config(tmp_path), board, stop)


async def test_pod_limit_smaller_than_the_files_refuses_the_download(site: Site, board: Board) -> None:
    limited = config(site, EngineName.VLLM)
    limited = limited.model_copy(update={"model": limited.model.model_copy(update={"fetch_limit_bytes": 4096})})
    with pytest.raises(DiskFull, match=r"needs 1 MiB more in .* free\. Raise spec\.model\.cache\.sizeLimit\.$"):
        fetch_model(limited, board, threading.Event())
    assert site.hub.downloads() == []


async def test_existing_files_in_the_folder_reduce_the_pod_limit(site: Site, board: Board) -> None:
    (site.root / "of-others").write_bytes(bytes(4096))
    limit = sum(map(len, FILES.values())) + 4095
    limited = config(site, EngineName.VLLM)
    limited = limited.model_copy(update={"model": limited.model.model_copy(update={"fetch_limit_bytes": limit})})
    with pytest.raises(DiskFull):
        fetch_model(limited, board, threading.Event())


async def test_adapter_of_a_hub_is_fetched_with_the_model(site: Site, board: Board, tmp_path: Path) -> None:
    mounted_config = tmp_path / "mounted"
    plain = config(site, EngineName.VLLM)
    adapters = (
        AdapterConfig(name="sql", path=str(site.root), hub=HubRepositoryConfig(repo=REPO, revision=COMMIT)),
        AdapterConfig(name="code", path=str(mounted_config)),
    )
    model = plain.model.model_copy(update={"path": str(mounted_config), "hub": None, "adapters": adapters})
    resolved = fetch_model(plain.model_copy(update={"model": model}), board, threading.Event()).model
    assert resolved.path == str(mounted_config)
    assert [each.path for each in resolved.adapters] == [str(site.root / "tiny--model" / COMMIT), str(mounted_config)]


async def test_relative_quantization_config_is_read_from_the_fetched_folder(site: Site, board: Board) -> None:
    plain = config(site, EngineName.VLLM)
    inc = QuantizationConfig(method=QuantizationMethod.INC, config_file=str(site.root / "quant.json"))
    model = plain.model.model_copy(update={"quantization": inc})
    resolved = fetch_model(plain.model_copy(update={"model": model}), board, threading.Event()).model
    assert resolved.quantization is not None
    assert resolved.quantization.config_file == f"{resolved.path}/quant.json"


async def test_absolute_path_of_quantization_config_is_kept(site: Site, board: Board) -> None:
    plain = config(site, EngineName.VLLM)
    inc = QuantizationConfig(method=QuantizationMethod.INC, config_file="/elsewhere/quant.json")
    model = plain.model.model_copy(update={"quantization": inc})
    resolved = fetch_model(plain.model_copy(update={"model": model}), board, threading.Event()).model
    assert resolved.quantization == inc


@pytest.mark.parametrize("endpoint", ["http://hub.example", "HTTP://hub.example:8080/mirror", "http://127.0.0.2"])
async def test_token_is_not_sent_without_tls(
    site: Site, board: Board, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(ConfigError, match=r"^HF_ENDPOINT begins with http://, so the access token would be sent"):
        fetch_model(config(site, EngineName.VLLM), board, threading.Event())


def test_endpoint_without_tls_is_allowed_without_a_token() -> None:
    assert read_hub_access_for_fetch({"HF_ENDPOINT": "http://hub.example"}) == (None, "http://hub.example")
    assert read_hub_access_for_fetch({"HF_ENDPOINT": "https://hub.example", "HF_TOKEN": "a"}) == (
        "a",
        "https://hub.example",
    )
    assert read_hub_access_for_fetch({"HF_TOKEN": "a"}) == ("a", None)
