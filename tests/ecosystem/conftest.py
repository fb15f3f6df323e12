"""The cluster of the end-to-end tests, for walks with parts of others."""

from tests.e2e.conftest import apply, installed, namespace, wait_ready

__all__ = ["apply", "installed", "namespace", "wait_ready"]
