"""Structured logs."""

import json
import logging
import sys
from collections.abc import Iterator

import pytest

from gaudi_runtime.process.logs import JsonLogFormatter, set_up_logs


@pytest.fixture
def restored_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A fixture that gives pytest's handlers and the levels back."""
    loggers = [logging.getLogger(name) for name in (None, "uvicorn", "httpx", "httpx2")]
    levels = [each.level for each in loggers]
    monkeypatch.setattr(logging.root, "handlers", [])
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def formatted(message: str, *args: object, error: bool = False) -> dict[str, str]:
    info = sys.exc_info() if error else None
    record = logging.LogRecord("a.b", logging.WARNING, "file", 1, message, args, info)
    line = JsonLogFormatter().format(record)
    assert "\n" not in line
    parsed: dict[str, str] = json.loads(line)
    return parsed


def test_record_is_one_line_of_json() -> None:
    line = formatted("%d buckets\nand more", 3)
    assert (line["level"], line["logger"], line["message"]) == ("warning", "a.b", "3 buckets\nand more")


def test_traceback_is_on_the_same_line() -> None:
    try:
        raise ValueError("boom")
    except ValueError:
        line = formatted("failed", error=True)
    assert line["exception"].endswith("ValueError: boom")


def test_record_has_its_extras_and_a_time_with_a_zone() -> None:
    record = logging.LogRecord("a.b", logging.INFO, "file", 1, "done", (), None)
    record.created, record.model = 1_700_000_000.5, "echo"
    line = json.loads(JsonLogFormatter(["model", "missing"]).format(record))
    assert (line["time"], line["model"]) == ("2023-11-14T22:13:20.500+00:00", "echo")
    assert "missing" not in line


@pytest.mark.usefixtures("restored_logging")
def test_addresses_of_model_files_are_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    """The lines of HTTP clients contain signed addresses, with which anyone could read the model."""
    set_up_logs()
    for client in ("httpx", "httpx2"):
        logging.getLogger(client).info("GET https://store.example/model?X-Amz-Signature=secret")
    logging.getLogger("gaudi_runtime").info("Serving")
    assert [json.loads(line)["message"] for line in capsys.readouterr().out.splitlines()] == ["Serving"]
