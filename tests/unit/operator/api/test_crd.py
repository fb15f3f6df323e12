"""The CRD that contains the schema, and the files generated from the CRD."""

import re
from pathlib import Path

import pytest
import yaml

from gaudi_operator.api.crd import (
    crd_chart_template,
    crd_yaml,
    crds_yaml,
    generated_crd_files,
    inference_crd,
    main,
    outdated_crd_files,
    write_crd_files,
)
from tests.unit.operator.api.schema_nodes import NODES

CHECKOUT = Path(__file__).parents[4]
VERSION = inference_crd()["spec"]["versions"][0]


def test_generated_files_are_up_to_date() -> None:
    assert outdated_crd_files(CHECKOUT) == [], "run `make generate`"


def test_changed_file_is_out_of_date(tmp_path: Path) -> None:
    write_crd_files(tmp_path)
    (tmp_path / "docs/reference/gaudi-inference/spec.md").write_text("by hand")
    assert outdated_crd_files(tmp_path) == ["docs/reference/gaudi-inference/spec.md"]


def test_page_that_is_no_longer_generated_is_out_of_date(tmp_path: Path) -> None:
    write_crd_files(tmp_path)
    (tmp_path / "docs/reference/gaudi-inference/gone.md").write_text("")
    assert outdated_crd_files(tmp_path) == ["docs/reference/gaudi-inference/gone.md"]


def test_page_that_is_no_longer_generated_is_deleted(tmp_path: Path) -> None:
    page = tmp_path / "docs/reference/gaudi-inference/gone.md"
    page.parent.mkdir(parents=True)
    page.write_text("")
    write_crd_files(tmp_path)
    assert not page.exists()


def test_missing_file_is_out_of_date(tmp_path: Path) -> None:
    assert outdated_crd_files(tmp_path) == list(generated_crd_files())


def test_check_names_the_outdated_file_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--check"]) == 1
    assert (
        "docs/reference/gaudi-inference/spec.md is out of date: run `make generate` and commit it."
        in capsys.readouterr().err
    )


def test_written_files_pass_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([]) == 0
    assert main(["--check"]) == 0


def test_unknown_argument_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--chek"]) == 2
    assert "usage:" in capsys.readouterr().err


def test_manifest_equals_the_crd() -> None:
    assert yaml.safe_load(crd_yaml()) == inference_crd()


def test_only_version_is_served_and_stored() -> None:
    assert (VERSION["name"], VERSION["served"], VERSION["storage"]) == ("v1alpha1", True, True)


def test_scale_reads_fields_that_exist() -> None:
    scale = VERSION["subresources"]["scale"]
    paths = {scale[key] for key in ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")}
    assert {path.removeprefix(".") for path in paths} <= NODES.keys()


def test_printer_column_reads_a_field_that_exists() -> None:
    paths = [re.sub(r"\[\?.*\]", "[]", column["jsonPath"]) for column in VERSION["additionalPrinterColumns"]]
    unknown = [path for path in paths if path.removeprefix(".") not in NODES and path != ".metadata.creationTimestamp"]
    assert unknown == []


def test_default_printer_columns_are_the_expected_ones() -> None:
    shown = [column["name"] for column in VERSION["additionalPrinterColumns"] if not column.get("priority")]
    assert shown == ["Engine", "Status", "Prompt%", "Decode%", "Warmup", "Ready", "Desired", "Age"]


def test_chart_template_has_the_manifest_inside_helm_conditions() -> None:
    named = re.sub(r"(?m)^.*gaudi-operator\.metadata.* \"name\" \"(.*?)\".*$", r"  name: \1", crd_chart_template())
    lines = [line for line in named.splitlines(keepends=True) if "{{-" not in line]
    assert "".join(lines).replace('{{ "{{" }}', "{{") == crds_yaml()


def test_chart_keeps_the_crd_only_if_configured() -> None:
    kept = '$keep := ternary (dict "helm.sh/resource-policy" "keep") dict .Values.crds.keep'
    assert crd_chart_template().count(kept) == 2
    assert crd_chart_template().startswith("{{- if .Values.crds.install }}\n")
    assert crd_chart_template().endswith("{{- end }}\n")
