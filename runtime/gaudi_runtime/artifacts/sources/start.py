"""The checkpoint as a step of start-up: it is fetched where nothing mounts it, and looked at before an engine does."""

import logging
import os
import threading
from pathlib import Path

from gaudi_runtime.artifacts.sources.weights import check_weights
from gaudi_runtime.contract.config import EngineName, HubRepository, QuantizationConfig, RuntimeConfig
from gaudi_runtime.contract.report import FetchProgress, Phase
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.http.report_board import ReportBoard
from gaudi_runtime.process.signals import raise_if_stopped

log = logging.getLogger(__name__)


def with_model_here(config: RuntimeConfig, board: ReportBoard, stop: threading.Event) -> RuntimeConfig:
    """The configuration as the engine needs it: the paths of model and adapters are folders whose weights are whole.

    The simulation reads no model and fetches none. Raises a RuntimeStartError with a sentence, or Stopped.
    """
    if config.engine.name is EngineName.SIM:
        return config

    def progress() -> None:
        raise_if_stopped(stop)
        board.touch()

    def here(hub: HubRepository | None, path: str) -> str:
        folder = fetched(hub, Path(path), config.model.fetch_limit_bytes, board, stop) if hub else Path(path)
        check_weights(folder, progress)
        return str(folder)

    model = config.model
    path = here(model.hub, model.path)
    adapters = tuple(each.model_copy(update={"path": here(each.hub, each.path)}) for each in model.adapters)
    found = {"path": path, "adapters": adapters, "quantization": _moved(model.quantization, model.path, path)}
    return config.model_copy(update={"model": model.model_copy(update=found)})


def _moved(desired: QuantizationConfig | None, named: str, found: str) -> QuantizationConfig | None:
    """The same with its file in the folder that was `found`, where the folder that was `named` stood for it."""
    if desired is None or desired.config_file is None or not Path(desired.config_file).is_relative_to(named):
        return desired
    file = Path(found) / Path(desired.config_file).relative_to(named)
    return desired.model_copy(update={"config_file": str(file)})


def fetched(
    repository: HubRepository, root: Path, limit: int | None, board: ReportBoard, stop: threading.Event
) -> Path:
    """The folder below `root` with the files of `repository`, which this call brings unless they are here.

    Its figures and warnings stand on the board; everything below `root` together may have `limit` bytes. Raises a
    RuntimeStartError with a sentence, or Stopped.
    """
    try:
        from gaudi_runtime.artifacts.sources.fetch import Fetch
        from gaudi_runtime.artifacts.sources.hub import Hub
    except ImportError as error:
        raise ConfigError(
            f"This image cannot fetch from a hub ({error}): give it huggingface_hub 2, or mount the checkpoint."
        ) from error

    def publish(progress: FetchProgress) -> None:
        board.update(fetch=progress, warnings=())

    def warn(sentence: str) -> None:
        log.warning("%s", sentence)
        board.update(warnings=(sentence,))

    board.update(phase=Phase.FETCHING)
    hub = Hub(repository.repo, repository.revision, _token(), os.environ.get("HF_ENDPOINT"))
    return Fetch(hub, root, stop, publish, warn, board.touch, limit=limit).run()


def _token() -> str | None:
    """Without the line end that a Secret made from a file often has; libraries quote a token that is no header."""
    token = os.environ.get("HF_TOKEN", "").strip()
    if not (token.isascii() and token.isprintable()):
        raise ConfigError("The access token in HF_TOKEN has characters that no token has: write its Secret anew.")
    return token or None
