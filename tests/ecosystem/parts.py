"""Third-party programs built from their Go modules. The folder of each program pins the versions.

The folder of a server also contains manifests. `python -m tests.ecosystem.parts` builds all programs in advance, so
that no node waits for a compiler.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from zlib import crc32

from demo.install import Installation
from localcluster.cache import ensure_cached
from localcluster.programs import build
from localcluster.progress import step
from scripts.chart_docs import CHART

FOLDER = Path(__file__).parent
NAMESPACE = "monitoring"


@dataclass(frozen=True)
class Part:
    """A program, built from the Go module in the folder `name`. The build took `seconds` on two cores."""

    name: str
    seconds: float
    tags: str = ""
    namespace: str = NAMESPACE

    @property
    def folder(self) -> Path:
        """The program's folder, which contains go.mod, go.sum and, for a server, manifests.yaml."""
        return FOLDER / self.name

    def build(self) -> Path:
        """Return a folder with the file `program`. The first call builds the program."""

        def make(folder: Path) -> None:
            flags = ("-trimpath", "-gcflags=all=-dwarf=false", "-ldflags=-s -w", f"-tags={self.tags}")
            with step(f"Building {self.name}", self.seconds):
                build.go(["build", *flags, "-o", str(folder / "program"), "tool"], self.folder)

        inputs = b"".join((self.folder / file).read_bytes() for file in ("go.mod", "go.sum"))
        return ensure_cached(f"{self.name}-{crc32(inputs + self.tags.encode()):08x}", make)

    def install(self, installed: Installation) -> None:
        """Install the server and wait until it is ready."""
        installed.cluster.load_folder(self.build(), f"localhost/{self.name}:ecosystem")
        installed.kubectl("apply", "-f", str(self.folder / "manifests.yaml"))
        rollout = ("rollout", "status", f"deployment/{self.name}", "--timeout=120s")
        installed.kubectl("--namespace", self.namespace, *rollout)


def config_map(installed: Installation, name: str, files: dict[str, str]) -> None:
    """Create a ConfigMap in the namespace of the third-party programs."""
    metadata = {"name": name, "namespace": NAMESPACE}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files}
    installed.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


PROMETHEUS = Part(
    "prometheus",
    seconds=340,
    # Build Prometheus with Kubernetes service discovery only. The build would otherwise include about 24 other service
    # discoveries, each with the client of a cloud.
    tags="remove_all_sd,enable_kubernetes_sd",
)
ADAPTER = Part("prometheus-adapter", seconds=90)
KREW = Part("krew", seconds=40)
OPERATOR_VERIFY = Part("operator-verify", seconds=100)
OLM = Part("olm", seconds=180)
KUEUE = Part("kueue", seconds=140, namespace="kueue-system")
KUBE_ROUTER = Part("kube-router", seconds=120, namespace="kube-system")


def install_prometheus(installed: Installation) -> None:
    """Install Prometheus with the alerts of the chart. The alerts wait for seconds instead of minutes."""
    installed.create_namespace(NAMESPACE)
    rules = (CHART / "files" / "alerts.yaml").read_text()
    config_map(installed, "alerts", {"alerts.yaml": re.sub(r"^( +for: \d+)m$", r"\1s", rules, flags=re.MULTILINE)})
    PROMETHEUS.install(installed)


def query_prometheus(installed: Installation, query: str) -> list[dict[str, Any]]:
    """Query the Prometheus of install_prometheus(), and return the result."""
    server = f"/api/v1/namespaces/{NAMESPACE}/services/prometheus:9090/proxy"
    answer = json.loads(installed.kubectl("get", "--raw", f"{server}/api/v1/query?{urlencode({'query': query})}"))
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


if __name__ == "__main__":
    for part in (PROMETHEUS, ADAPTER, KREW, OPERATOR_VERIFY, OLM, KUBE_ROUTER, KUEUE):
        part.build()
