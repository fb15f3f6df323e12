"""The children that the operator writes for a resource, as text that shows every field and few hashes."""

import difflib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import yaml

from gaudi_operator.core.names import APPLIED_HASH_ANNOTATION, PLAN_HASH_ANNOTATION, REVISION_LABEL
from tests.support.builders import Object, copied, gaudi_inference
from tests.unit.operator.core.cluster import Cluster
from tests.unit.operator.core.group_cluster import GroupCluster

NAME = "tiny"
MOST_RECONCILES = 10
LONGEST_TEXT = 1_000
"""The maximum number of characters of a text. Longer texts are bucket files and traffic of hostile specs."""

_OF_THE_SERVER = ("uid", "creationTimestamp", "resourceVersion", "generation", "namespace")
_WORKLOADS = ("ReplicaSet", "LeaderWorkerSet")


class _Dumper(yaml.SafeDumper):
    """Writes equal objects in full, because an alias would hide a field."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True for every object."""
        return True


@dataclass(frozen=True)
class Rendering:
    """The children of a resource as lines of YAML, by kind and name.

    `hashes` is a comment with the hashes, which the lines show as placeholders. So a changed hash changes one line.
    """

    hashes: str
    children: dict[str, list[str]]

    @property
    def text(self) -> str:
        """All lines, with the hashes first."""
        return "".join(
            f"{line}\n" for line in (self.hashes, *(line for each in self.children.values() for line in each))
        )

    def difference(self, base: "Rendering") -> Iterator[str]:
        """Yield the lines that differ from `base`, below the name of their child."""
        for child in sorted(base.children | self.children):
            before, after = base.children.get(child, []), self.children.get(child, [])
            if before != after:
                yield f"@ {child}"
                changes = difflib.unified_diff(before, after, n=0, lineterm="")
                yield from (line for line in list(changes)[2:] if not line.startswith("@@"))


def stored(manifest: Object, name: str = NAME) -> Object:
    """Return the manifest as an object of the API server with this name."""
    metadata = {**manifest["metadata"], "name": name, "namespace": "models", "uid": "uid-of-tiny", "generation": 1}
    return {**manifest, "metadata": metadata}


def new_cluster(manifest: Object, **fields: Any) -> Cluster:
    """Return a cluster in which the resource has no children yet. `fields` are passed to the cluster."""
    nodes = (manifest["spec"].get("parallelism") or {}).get("nodes", 1)
    return (GroupCluster if nodes > 1 else Cluster)(manifest, **fields)


def reconcile(cluster: Cluster) -> str | None:
    """Reconcile until no action is left. Return the reason why the resource has no workload, or None if it has one."""
    for _ in range(MOST_RECONCILES):
        decision = cluster.operate()
        if not decision.actions:
            reasons = {each.type: each.reason for each in decision.status.conditions}
            return None if any(kind in _WORKLOADS for kind, _ in cluster.objects) else reasons["Ready"]
    raise AssertionError(f"the operator still acts after {MOST_RECONCILES} reconciles: {decision.actions}")


def render(cluster: Cluster) -> Rendering:
    """Return the text of all children of a cluster with one revision."""
    return render_objects([each for (kind, _), each in sorted(cluster.objects.items()) if kind != "Pod"])


def render_objects(objects: list[Object]) -> Rendering:
    """Return the text of these children. The names of their revision and of its ConfigMap become placeholders."""
    found = json.loads(json.dumps(objects))
    (workload,) = (each for each in found if each["kind"] in _WORKLOADS)
    spec = workload["spec"]
    template = spec["template"] if workload["kind"] == "ReplicaSet" else spec["leaderWorkerTemplate"]["leaderTemplate"]
    config = next(each["configMap"]["name"] for each in template["spec"]["volumes"] if each["name"] == "config")
    names = {
        "<plan-hash>": template["metadata"]["annotations"][PLAN_HASH_ANNOTATION],
        "<revision>": workload["metadata"]["labels"][REVISION_LABEL],
        "<config>": config.rpartition("-")[2],
    }
    known = {json.dumps(template): "<template>"}
    for child in found:
        if child["kind"] == "ConfigMap" and child["metadata"]["name"] == config:
            known[json.dumps(child["data"]["config.json"])] = "<config.json>"
    shown = {f"{each['kind']} {each['metadata']['name']}": _shown(each, known) for each in found}
    hashes = ", ".join(f"{placeholder[1:-1]} {value[:16]}" for placeholder, value in names.items())
    return Rendering(f"# {hashes}", dict(_as_lines(child, fields, names) for child, fields in shown.items()))


def _as_lines(child: str, fields: Object, names: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the name of a child and its lines, with placeholders for the values of `names`."""
    # Write no line breaks within an entry, because one changed value would then change many lines.
    text = yaml.dump({child: fields}, Dumper=_Dumper, default_flow_style=None, width=sys.maxsize)
    for placeholder, value in names.items():
        child, text = child.replace(value, placeholder), text.replace(value, placeholder)
    return child, text.splitlines()


def _shown(child: Object, known: Mapping[str, str]) -> Object:
    """Return the fields of a child that the operator sets. Parts that `known` contains are shown elsewhere."""
    metadata = {key: value for key, value in child["metadata"].items() if key not in _OF_THE_SERVER}
    annotations = {
        key: value for key, value in metadata.pop("annotations", {}).items() if key != APPLIED_HASH_ANNOTATION
    }
    fields = {key: value for key, value in child.items() if key not in ("kind", "metadata", "status")}
    if child["kind"] == "ConfigMap":
        fields["data"] = {key: _parsed(text) for key, text in fields["data"].items()}
    if child["kind"] == "ControllerRevision":
        fields["data"] = {key: known.get(json.dumps(part), part) for key, part in fields["data"].items()}
    metadata |= {"labels": metadata.pop("labels", {}), **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": fields.pop("apiVersion"), "metadata": metadata, **_shortened(fields)}


def _parsed(text: str) -> object:
    """Return the object of a JSON text, so that each of its fields has a line. Every byte of the text has an effect."""
    value = json.loads(text)
    compact = json.dumps(value, separators=(",", ":"), ensure_ascii=False) == text
    return {"<JSON>": value} if compact else text


def _shortened(value: Any) -> Any:
    """Return `value` with the length and the checksum of long texts."""
    if isinstance(value, dict):
        return {key: _shortened(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_shortened(each) for each in value]
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"<{len(value)} characters, SHA-256 {sha256(value.encode()).hexdigest()[:16]}>"
    return value


def serving() -> Cluster:
    """Return a cluster in which the resource of the test builder serves."""
    cluster = Cluster(stored(gaudi_inference(NAME)))
    cluster.settle()
    return cluster


def outcome(manifest: Object, base: Rendering, serving: Cluster, **fields: Any) -> list[str]:
    """Return what the operator does with a spec: the difference from `base`, or the reason of its refusal.

    A refused spec is also written to `serving`, whose children and pods must stay as they are.
    """
    cluster = new_cluster(manifest, **fields)
    if not (reason := reconcile(cluster)):
        rendering = render(cluster)
        return [rendering.hashes, *(rendering.difference(base))]
    edited = copied(serving)
    for name, value in fields.items():
        setattr(edited, name, value)
    before = copied(edited.objects)
    metadata = {**edited.resource["metadata"], "generation": 2}
    edited.resource = {**edited.resource, "metadata": metadata, "spec": manifest["spec"]}
    reconcile(edited)
    changed = {
        kind for kind, name in before | edited.objects if before.get((kind, name)) != edited.objects.get((kind, name))
    }
    created = {kind for kind, _ in cluster.objects}
    return [f"refused: {reason}; created: {_listed(created)}; changed while serving: {_listed(changed)}"]


def _listed(kinds: set[str]) -> str:
    return " ".join(sorted(kinds)) or "nothing"
