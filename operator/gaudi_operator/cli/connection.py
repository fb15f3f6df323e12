"""The way to the cluster that kubectl would talk to: kubeconfig, context, namespace."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes import client, config
from yaml import YAMLError

from gaudi_runtime.errors import ConfigError

MALFORMED = (YAMLError, OSError, AttributeError, TypeError, ValueError)
"""What the client meets in a kubeconfig of another shape, which it does not check."""


@dataclass(frozen=True)
class Way:
    """What a command line says of it; None is kubectl's own choice."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None

    def open(self) -> Any:
        """A client of the API server. Raises ConfigError when no cluster is known."""
        settings = client.Configuration()
        settings.retries = False
        try:
            if self._inside_a_pod():
                config.load_incluster_config(client_configuration=settings)
            else:
                config.load_kube_config(self._file(), context=self.context, client_configuration=settings)
        except config.ConfigException as error:
            raise ConfigError(f"no cluster is known: {cause(error)}; set KUBECONFIG as for kubectl") from error
        except MALFORMED as error:
            raise ConfigError(f"no cluster is known: {self._file()} is not a kubeconfig; set KUBECONFIG") from error
        return client.ApiClient(settings)

    def place(self) -> str:
        """The namespace: as said, or that of the context."""
        if self.namespace:
            return self.namespace
        try:
            contexts, current = config.list_kube_config_contexts(self._file())
        except (config.ConfigException, *MALFORMED):
            return "default"
        chosen = next((each for each in contexts if each["name"] == self.context), current)
        return str(chosen.get("context", {}).get("namespace") or "default")

    def _file(self) -> str:
        """Read at every call: the client's own default is what the variable was when it was imported."""
        return self.kubeconfig or os.environ.get("KUBECONFIG") or config.KUBE_CONFIG_DEFAULT_LOCATION

    def _inside_a_pod(self) -> bool:
        known = any(Path(each).expanduser().exists() for each in self._file().split(os.pathsep) if each)
        return not known and not self.kubeconfig and "KUBERNETES_SERVICE_HOST" in os.environ


def cause(error: Exception) -> str:
    """What an error of the client says, on one line."""
    return " ".join(str(getattr(error, "reason", None) or error).split()).rstrip(".")
