"""Files generated from the chart are up to date."""

import subprocess

import pytest
import yaml

from localcluster.programs.build import helm
from scripts.chart_docs import CHART, MANIFEST, documents, manifest, schema, values
from tests.unit.chart.rendering import PREFIX

pytestmark = pytest.mark.timeout(1200)  # the first run builds Helm


def test_readme_and_schema_are_up_to_date() -> None:
    assert [path.name for path, text in documents().items() if path.read_text() != text] == []


def test_manifest_for_kubectl_is_up_to_date() -> None:
    assert MANIFEST.read_text() == manifest()


def test_manifest_for_kubectl_has_no_helm_metadata() -> None:
    assert "helm" not in MANIFEST.read_text().lower()


def test_manifest_creates_its_namespace_first() -> None:
    first = next(yaml.safe_load_all(MANIFEST.read_text()))
    assert (first["kind"], first["metadata"]["name"]) == ("Namespace", "gaudi-system")


def test_kustomization_includes_the_manifest() -> None:
    kustomization = yaml.safe_load((MANIFEST.parent / "kustomization.yaml").read_text())
    assert kustomization["resources"] == [MANIFEST.name]


def test_chart_passes_helm_lint_strict() -> None:
    command = [str(helm() / "helm"), "lint", "--strict", "--quiet", "--set", f"image.prefix={PREFIX}", str(CHART)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_value_without_a_comment_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^b\.c in values\.yaml has no comment: describe it in the line above\.$"):
        values("# A.\na: 1\n# B.\nb:\n  c: 2\n")


def test_schema_of_a_value_uses_comment_default_and_annotation() -> None:
    (documented,) = values('# How many\n# of them.\n# @schema {"minimum": 1}\ncount: 2\n')
    assert schema((documented,))["properties"]["count"] == {
        "description": "How many of them.",
        "type": "integer",
        "default": 2,
        "minimum": 1,
    }
