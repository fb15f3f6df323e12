"""The output of real Helm for the chart with given values."""

import json
import subprocess
from typing import Any

import yaml

from localcluster.programs.build import helm
from scripts.chart_docs import CHART, NAMESPACE

Object = dict[str, Any]
PREFIX = "registry.example.com/ai/"


def render(release: str = "gaudi-operator", **values: Any) -> list[Object]:
    """Return all objects of a release. `values` are grouped by section, for example `crds={"install": False}`."""
    done = template(release, **values)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def refusal(**values: Any) -> str:
    """Return Helm's error message for values that do not render."""
    done = template("gaudi-operator", **values)
    assert done.returncode, "Helm rendered what it should refuse"
    return done.stderr


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    """Return the objects of one kind."""
    return [each for each in objects if each["kind"] == kind]


def only(objects: list[Object], kind: str) -> Object:
    """Return the only object of a kind."""
    (found,) = of_kind(objects, kind)
    return found


def template(release: str, **values: Any) -> subprocess.CompletedProcess[str]:
    """Run `helm template` in the usual namespace. Images have a prefix unless `values` overrides it."""
    values = {**values, "image": {"prefix": PREFIX, **values.get("image", {})}}
    command = [str(helm() / "helm"), "template", release, str(CHART), "--namespace", NAMESPACE, "--values", "-"]
    return subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)


def pod_of(objects: list[Object]) -> Object:
    """Return the spec of the operator's pods."""
    spec: Object = only(objects, "Deployment")["spec"]["template"]["spec"]
    return spec


def container_of(objects: list[Object]) -> Object:
    """Return the operator's container."""
    (container,) = pod_of(objects)["containers"]
    return dict(container)


def environment_of(objects: list[Object]) -> dict[str, str | None]:
    """Return the environment of the operator's container. Variables that refer to pod fields have the value None."""
    return {each["name"]: each.get("value") for each in container_of(objects)["env"]}
