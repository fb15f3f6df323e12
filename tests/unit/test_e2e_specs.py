"""Specs that only tests/e2e applies have fields of the current API. This test finds errors in seconds."""

import pytest

from gaudi_operator.cli.plan.manifest import read_inference_manifest
from tests.e2e import test_card, test_hostile_neighbours
from tests.support.builders import Object
from tests.support.documented import tiny_llama

HOSTILE = [each["spec"] for each in test_hostile_neighbours.hostile_resources()]
SPECS = {"card": test_card.SPEC, "start pages": tiny_llama("http://hub")["spec"]}


@pytest.mark.parametrize("spec", [*SPECS.values(), *HOSTILE], ids=[*SPECS, *map(str, range(len(HOSTILE)))])
def test_spec_has_only_fields_of_the_api(spec: Object) -> None:
    assert read_inference_manifest({"kind": "GaudiInference", "metadata": {"name": "x"}, "spec": spec}).inference
