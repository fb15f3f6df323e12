"""Logs: one JSON object per line for machines, one plain line for a person at a terminal."""

import logging
import sys
from datetime import datetime

from gaudi_runtime.process.logs import JsonFormatter


class TextFormatter(logging.Formatter):
    """Time, level, resource, message."""

    def format(self, record: logging.LogRecord) -> str:
        """Render a record."""
        resource = getattr(record, "resource", None)
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        line = f"{time} {record.levelname:7} {f'[{resource}] ' if resource else ''}{record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure(format_name: str, level: str) -> None:
    """Send all logs of this process to stderr. `format_name` is auto, json or text."""
    text = sys.stderr.isatty() if format_name == "auto" else format_name == "text"
    handler = logging.StreamHandler()
    handler.setFormatter(TextFormatter() if text else JsonFormatter(extras=("resource",)))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # kopf narrates every event; only its complaints are of use. Failed requests are told by watch_session.py.
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("kopf._cogs.clients").setLevel(logging.CRITICAL)
