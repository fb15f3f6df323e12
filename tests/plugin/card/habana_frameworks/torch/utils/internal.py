import os


def is_lazy() -> bool:
    """Return True if lazy mode is enabled. The default is the default of Gaudi software 1.24."""
    return os.environ.get("PT_HPU_LAZY_MODE", "0") == "1"
