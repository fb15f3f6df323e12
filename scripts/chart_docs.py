"""Writes the table of the chart's README and values.schema.json from values.yaml, and deploy/operator.yaml.

`python -m scripts.chart_docs` writes all three. With `--check`, it fails if README or schema differ. tests/unit/chart
checks the rendered manifest, which needs Helm.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from localcluster.programs.build import helm

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "gaudi-operator"
MANIFEST = ROOT / "deploy" / "operator.yaml"
NAMESPACE = "gaudi-system"

_MARK = "# @schema "
_TABLE = re.compile(r"(?<=<!-- values -->\n).*(?=<!-- end of values -->)", re.DOTALL)
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
_NAMESPACE_MANIFEST = f"""\
# Rendered from charts/gaudi-operator by `make generate`; do not edit.
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    pod-security.kubernetes.io/enforce: restricted
"""


@dataclass(frozen=True)
class Value:
    """One key of values.yaml with its comment, its `@schema`, and the keys below it. `path` has dots."""

    path: str
    default: Any
    description: str
    schema: dict[str, Any]
    children: tuple["Value", ...]


def values(text: str) -> tuple[Value, ...]:
    """Return the documented keys of a values.yaml. Raises ValueError if a key has no comment."""
    return tuple(_values(yaml.compose(text, Loader=yaml.SafeLoader), yaml.safe_load(text), text.splitlines(), ""))


def _values(node: yaml.Node | None, defaults: dict[str, Any], lines: list[str], parent: str) -> Iterator[Value]:
    if not isinstance(node, yaml.MappingNode):
        return
    for key, child in node.value:
        path, default = f"{parent}{key.value}", defaults[key.value]
        description, schema = _comment(lines, key.start_mark.line, path)
        yield Value(path, default, description, schema, tuple(_values(child, default, lines, f"{path}.")))


def _comment(lines: list[str], line_number: int, path: str) -> tuple[str, dict[str, Any]]:
    """Return the sentences of the comment that ends above `line_number`, and the JSON of its `@schema` line."""
    start = line_number
    while start and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    comment = [line.strip() for line in lines[start:line_number]]
    text = " ".join(line.lstrip("# ") for line in comment if not line.startswith(_MARK))
    if not text:
        raise ValueError(f"{path} in values.yaml has no comment: describe it in the line above.")
    schemas = [json.loads(line.removeprefix(_MARK)) for line in comment if line.startswith(_MARK)]
    return text, schemas[0] if schemas else {}


def schema(keys: tuple[Value, ...]) -> dict[str, Any]:
    """Return the JSON schema of the chart's values, including `global`, which Helm passes to every chart."""
    root = _object(keys)
    root["properties"]["global"] = {"type": "object"}
    return {"$schema": "http://json-schema.org/draft-07/schema#", **root}


def _object(children: tuple[Value, ...]) -> dict[str, Any]:
    properties = {child.path.rpartition(".")[2]: _property(child) for child in children}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _property(value: Value) -> dict[str, Any]:
    type_schema = _object(value.children) if value.children else {"type": _TYPES[type(value.default)]}
    return {"description": value.description, **type_schema, "default": value.default, **value.schema}


def table(keys: tuple[Value, ...]) -> str:
    """Return a table with a row for each key that is set as a whole, in the order of the file."""
    rows = ["| Value | Default | Meaning |", "|---|---|---|"]
    rows += [f"| `{value.path}` | `{json.dumps(value.default)}` | {value.description} |" for value in _leaves(keys)]
    return "\n".join(rows) + "\n"


def _leaves(keys: tuple[Value, ...]) -> Iterator[Value]:
    for value in keys:
        if value.children:
            yield from _leaves(value.children)
        else:
            yield value


def documents() -> dict[Path, str]:
    """Return the texts of the files that depend only on values.yaml, by path."""
    keys = values((CHART / "values.yaml").read_text())
    readme = CHART / "README.md"
    return {
        CHART / "values.schema.json": json.dumps(schema(keys), indent=2) + "\n",
        readme: _TABLE.sub(lambda _: table(keys), readme.read_text()),
    }


def manifest() -> str:
    """Return the chart with default values as a manifest for `kubectl apply`, without labels of Helm."""
    command = [str(helm() / "helm"), "template", "gaudi-operator", str(CHART), "--namespace", NAMESPACE, "--skip-tests"]
    # A Kustomize overlay replaces these names (docs/start/install.md, Without Helm).
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    image_names = {"operator": "gaudi-operator", "runtime": "gaudi-runtime", "hpu": "gaudi-runtime-hpu"}
    settings = ["crds.keep=false", *(f"image.{key}={name}:{version}" for key, name in image_names.items())]
    options = [part for setting in settings for part in ("--set", setting)]
    output = subprocess.run([*command, *options], capture_output=True, text=True, check=True).stdout
    helm_prefixes = ("# Source: ", "app.kubernetes.io/managed-by: Helm", "helm.sh/chart: ")
    lines = (line for line in output.splitlines() if not line.strip().startswith(helm_prefixes))
    return _NAMESPACE_MANIFEST + "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Run `python -m scripts.chart_docs [--check]`."""
    if arguments == ["--check"]:
        stale = [path for path, text in documents().items() if not path.is_file() or path.read_text() != text]
        sys.stderr.writelines(f"{path.relative_to(ROOT)} is out of date: run `make generate`.\n" for path in stale)
        return 1 if stale else 0
    if arguments:
        sys.stderr.write("usage: python -m scripts.chart_docs [--check]\n")
        return 2
    for path, text in documents().items():
        path.write_text(text)
    MANIFEST.write_text(manifest())  # written last, because Helm reads the new schema
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
