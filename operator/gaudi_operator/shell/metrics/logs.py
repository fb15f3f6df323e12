"""The logs of the operator's process: text for people, or JSON for machines."""

import logging
import sys
from datetime import datetime

from gaudi_runtime.contract.text import make_one_line
from gaudi_runtime.process.logs import JsonLogFormatter


class _TextFormatter(logging.Formatter):
    """A formatter that writes time, level, resource and message of a log record on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        resource = getattr(record, "resource", None)
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        line = f"{time} {record.levelname:7} {f'[{resource}] ' if resource else ''}{make_one_line(record.getMessage())}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure_operator_logs(format_name: str, level: str) -> None:
    """Send all logs of the operator to stderr. `format_name` is "auto", "json" or "text"."""
    is_text = sys.stderr.isatty() if format_name == "auto" else format_name == "text"
    handler = logging.StreamHandler()
    handler.setFormatter(_TextFormatter() if is_text else JsonLogFormatter(extras=("resource",)))
    # `force` replaces existing handlers, which an imported library may have installed.
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # kopf logs every event, so log only its warnings. kopf_watches.py logs failed watches, so suppress the logs of
    # kopf's client.
    logging.getLogger("kopf").setLevel(logging.WARNING)
    logging.getLogger("kopf._cogs.clients").setLevel(logging.CRITICAL)
