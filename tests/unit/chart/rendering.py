"""What real Helm makes of the chart with given values."""

import json
import subprocess
from typing import Any

import yaml

from localcluster.programs.build import helm
from scripts.chart_docs import CHART, NAMESPACE

Object = dict[str, Any]
PREFIX = "registry.example.com/ai/"


def render(release: str = "gaudi-operator", **values: Any) -> list[Object]:
    """All objects of a release with `values`, given by section: `crds={"install": False}`."""
    done = template(release, **values)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def refusal(**values: Any) -> str:
    """What Helm says instead of rendering."""
    done = template("gaudi-operator", **values)
    assert done.returncode, "Helm rendered what it should refuse"
    return done.stderr


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    """Those of one kind."""
    return [each for each in objects if each["kind"] == kind]


def only(objects: list[Object], kind: str) -> Object:
    """The one object of a kind."""
    (found,) = of_kind(objects, kind)
    return found


def template(release: str, **values: Any) -> subprocess.CompletedProcess[str]:
    """`helm template` in the usual namespace; images have a prefix unless `values` say otherwise."""
    values = {**values, "image": {"prefix": PREFIX, **values.get("image", {})}}
    command = [str(helm() / "helm"), "template", release, str(CHART), "--namespace", NAMESPACE, "--values", "-"]
    return subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)


def pod_of(objects: list[Object]) -> Object:
    """Spec of the operator's pods."""
    spec: Object = only(objects, "Deployment")["spec"]["template"]["spec"]
    return spec


def container_of(objects: list[Object]) -> Object:
    """The operator's container."""
    (container,) = pod_of(objects)["containers"]
    return dict(container)


def environment_of(objects: list[Object]) -> dict[str, str | None]:
    """Environment of the operator's container; None for what the pod's own fields fill in."""
    return {each["name"]: each.get("value") for each in container_of(objects)["env"]}
