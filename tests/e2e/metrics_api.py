"""A server of the API custom.metrics.k8s.io for pods. For each request, it reads /metrics of the pods.

The module uses only the standard library, so it runs in any Python pod with permission to list pods. It supports only
the requests of the autoscaler. Users install prometheus-adapter instead (docs/how-to/scaling.md).
"""

import json
import re
import ssl
import sys
import time
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

VERSION = "custom.metrics.k8s.io/v1beta2"
METRIC = "gaudi_requests_running"
METRIC_PATH = re.compile(rf"^/apis/{VERSION}/namespaces/([^/]+)/pods/\*/{METRIC}$")
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
STATUS_PORT = 8001
DISCOVERY = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": VERSION,
    "resources": [
        {"name": f"pods/{METRIC}", "singularName": "", "namespaced": True, "kind": "MetricValueList", "verbs": ["get"]}
    ],
}


def values(namespace: str, selector: str) -> dict[str, Any]:
    """Return the metrics of the selected pods. Pods that do not report the metric are omitted."""
    found = ((pod, running_requests(pod)) for pod in pods(namespace, selector))
    items = [_item(pod, value) for pod, value in found if value is not None]
    return {"kind": "MetricValueList", "apiVersion": VERSION, "metadata": {}, "items": items}


def pods(namespace: str, selector: str) -> list[dict[str, Any]]:
    """Return the pods that have an address, as listed by the API server."""
    url = f"https://kubernetes.default.svc/api/v1/namespaces/{namespace}/pods?labelSelector={urllib.parse.quote(selector)}"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"})
    trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    with urllib.request.urlopen(request, context=trust, timeout=5) as answer:  # noqa: S310 - the API server's own
        return [pod for pod in json.load(answer)["items"] if pod["status"].get("podIP")]


def running_requests(pod: dict[str, Any]) -> str | None:
    """Return a pod's number of running requests from its metrics, or None if the number is not available."""
    try:
        url = f"http://{pod['status']['podIP']}:{STATUS_PORT}/metrics"
        with urllib.request.urlopen(url, timeout=2) as answer:
            found = re.search(rf"^{METRIC} (\S+)$", answer.read().decode(), re.MULTILINE)
    except OSError:
        return None
    return str(int(float(found[1]))) if found else None


def _item(pod: dict[str, Any], value: str) -> dict[str, Any]:
    metadata = pod["metadata"]
    described = {"kind": "Pod", "apiVersion": "/v1", "namespace": metadata["namespace"], "name": metadata["name"]}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"describedObject": described, "metric": {"name": METRIC}, "timestamp": now, "value": value}


class Handler(BaseHTTPRequestHandler):
    """An HTTP handler for API discovery and the metric."""

    def do_GET(self) -> None:
        """Answer a GET request."""
        url = urllib.parse.urlsplit(self.path)
        match = METRIC_PATH.match(urllib.parse.unquote(url.path))
        if match:
            selector = urllib.parse.parse_qs(url.query).get("labelSelector", [""])[0]
            self._answer(200, values(match[1], selector))
        elif url.path == f"/apis/{VERSION}":
            self._answer(200, DISCOVERY)
        else:
            self._answer(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main(port: int, certificate: str, key: str) -> None:
    """Serve until the process ends."""
    server = ThreadingHTTPServer(("", port), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
