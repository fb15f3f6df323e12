"""Structured logs."""

import json
import logging
import sys

from gaudi_runtime.process.logs import JsonFormatter


def formatted(message: str, *args: object, error: bool = False) -> dict[str, str]:
    info = sys.exc_info() if error else None
    record = logging.LogRecord("a.b", logging.WARNING, "file", 1, message, args, info)
    line = JsonFormatter().format(record)
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
