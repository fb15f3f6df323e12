"""What the installation decides for all resources; the shell reads it from the environment (settings.py)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class InstallationDefaults:
    """Values that a resource may leave out, and what the installation allows."""

    runtime_image: str
    hpu_image: str
    allow_host_path: bool = False
    operator_namespace: str = "gaudi-system"
