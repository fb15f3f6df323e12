"""The fetch as a step of start-up: its figures on the board, and the configuration that names the fetched folder."""

import logging
import os
import threading
from pathlib import Path

from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.contract.report import FetchProgress, Phase
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.report_board import ReportBoard

log = logging.getLogger(__name__)


def with_model_here(config: RuntimeConfig, board: ReportBoard, stop: threading.Event) -> RuntimeConfig:
    """The configuration as the engine needs it: `model.path` is a folder with the checkpoint's files.

    The simulation reads no model and fetches none. Raises a RuntimeStartError with a sentence, or Stopped.
    """
    if config.model.hub is None or config.engine.name is EngineName.SIM:
        return config
    try:
        from gaudi_runtime.sources.fetch import Fetch
        from gaudi_runtime.sources.hub import Hub
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
    hub = Hub(config.model.hub.repo, config.model.hub.revision, _token(), os.environ.get("HF_ENDPOINT"))
    folder = Fetch(hub, Path(config.model.path), stop, publish, warn, board.touch).run()
    return config.model_copy(update={"model": config.model.model_copy(update={"path": str(folder)})})


def _token() -> str | None:
    """Without the line end that a Secret made from a file often has; libraries quote a token that is no header."""
    token = os.environ.get("HF_TOKEN", "").strip()
    if not (token.isascii() and token.isprintable()):
        raise ConfigError("The access token in HF_TOKEN has characters that no token has: write its Secret anew.")
    return token or None
