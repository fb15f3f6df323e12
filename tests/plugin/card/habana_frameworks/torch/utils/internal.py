import os


def is_lazy() -> bool:
    """As of Gaudi software 1.24, where lazy mode is asked for."""
    return os.environ.get("PT_HPU_LAZY_MODE", "0") == "1"
