"""Logging to stdout: one JSON object per line, or plain text on a terminal."""

import json
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from gaudi_runtime.contract.text import make_one_line


class JsonLogFormatter(logging.Formatter):
    """A log formatter that writes one JSON object per record: time, level, logger, message, extras and exception."""

    def __init__(self, extras: Sequence[str] = ()) -> None:
        """Create the formatter. `extras` are names of record attributes that are added to the JSON object."""
        super().__init__()
        self._extras = extras

    def format(self, record: logging.LogRecord) -> str:
        """Format a log record as one line of JSON."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: getattr(record, name) for name in self._extras if hasattr(record, name)},
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        # json.dumps escapes only the control characters of ASCII. `make_one_line` escapes the other line breaks of
        # Unicode.
        return make_one_line(json.dumps(entry, ensure_ascii=False))


def set_up_logs() -> None:
    """Configure logging: all logs of this process go to stdout at level INFO."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
        if sys.stdout.isatty()
        else JsonLogFormatter()
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    for client in ("httpx", "httpx2"):
        logging.getLogger(client).setLevel(logging.WARNING)  # its lines contain signed addresses of model files
