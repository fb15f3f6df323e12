import os


def is_lazy() -> bool:
    """Return True if lazy mode is enabled. Without the variable, lazy mode is disabled, as in Gaudi software 1.24."""
    return os.environ.get("PT_HPU_LAZY_MODE", "0") == "1"
