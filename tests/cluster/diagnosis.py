"""The state of a test's namespace after a failed test, for a failure that cannot be repeated."""

from pathlib import Path
from typing import Any

from localcluster import LocalClusterError

_KINDS = "gaudiinferences,pods,replicasets,horizontalpodautoscalers,persistentvolumeclaims"
_SECTIONS = (
    ("objects", ("get", _KINDS, "--output=wide")),
    ("status", ("get", "gaudiinferences", "--output=jsonpath={range .items[*]}{.status.conditions}{'\\n'}{end}")),
    ("pod conditions", ("get", "pods", "--output=jsonpath={range .items[*]}{.status.conditions}{'\\n'}{end}")),
    ("events", ("get", "events", "--sort-by=.lastTimestamp")),
)
_LOG_LINES = 40


def diagnose(arguments: dict[str, Any]) -> list[tuple[str, str]]:
    """Return titles and texts about the namespace, the operators and the kubelet among a test's arguments."""
    found = []
    if "namespace" in arguments and "control_plane" in arguments:
        for title, command in _SECTIONS:
            found.append((title, _kubectl(arguments, command)))
    for log in sorted(Path(arguments["tmp_path"]).glob("operator-*.log")) if "tmp_path" in arguments else ():
        found.append((log.name, "\n".join(log.read_text().splitlines()[-_LOG_LINES:])))
    if (kubelet := arguments.get("kubelet")) and kubelet.failures:
        found.append(("failed tasks of the kubelet", "\n".join(map(repr, kubelet.failures))))
    return found


def _kubectl(arguments: dict[str, Any], command: tuple[str, ...]) -> str:
    try:
        return str(arguments["control_plane"].kubectl("--namespace", arguments["namespace"], *command))
    except LocalClusterError as error:
        return str(error)
