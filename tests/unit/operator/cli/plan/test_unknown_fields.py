"""Fields in the wrong place of a manifest are refused with the field that was probably meant."""

from typing import Any

from tests.support.builders import merged
from tests.unit.operator.cli.plan.asked import INFERENCE, refusal

LIST = "`kubectl explain gi.spec --recursive` lists the fields"
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "spec.resources": ({"resources": {}}, "did you mean spec.pod.resources?"),
    "spec.env": ({"env": []}, "did you mean spec.engine.env?"),
    "spec.pod.env": ({"pod": {"env": []}}, "did you mean spec.engine.env?"),
    "spec.image": ({"image": "a"}, "did you mean spec.server.image?"),
    "spec.nodeSelector": ({"nodeSelector": {}}, "did you mean spec.pod.nodeSelector?"),
    "spec.accelerator.count": ({"accelerator": {"count": 8}}, "did you mean spec.parallelism.tensor?"),
    "spec.model.maxNumSeqs": ({"model": {"maxNumSeqs": 8}}, "did you mean spec.engine.maxNumSeqs?"),
    "spec.tensorParallelSize": ({"tensorParallelSize": 8}, "did you mean spec.parallelism.tensor?"),
    "spec.warmup.deviceMemoryUtilizationPercent": (
        {"warmup": {"deviceMemoryUtilizationPercent": 90}},
        "did you mean spec.engine.deviceMemoryUtilizationPercent?",
    ),
    "spec.minReplicas": ({"minReplicas": 2}, "did you mean spec.autoscaling.minReplicas?"),
    "spec.model.storageUri": ({"model": {"storageUri": "a"}}, "did you mean spec.model.source?"),
    "spec.model.source.s3": ({"model": {"source": {"s3": {}}}}, "did you mean spec.model.source?"),
    "spec.engine.blockSizes": ({"engine": {"blockSizes": 16}}, "did you mean spec.engine.blockSize?"),
    "spec.engine.max_num_seqs": ({"engine": {"max_num_seqs": 4}}, "did you mean spec.engine.maxNumSeqs?"),
    "spec.engine.env[0].vale": (
        {"engine": {"env": [{"name": "A", "value": "1", "vale": "2"}]}},
        "did you mean spec.engine.env[0].value?",
    ),
    "spec.maxModelLength": ({"maxModelLength": 1024}, "did you mean spec.model.maxModelLen?"),
    "spec.maxReplica": ({"maxReplica": 2}, "did you mean spec.autoscaling.maxReplicas?"),
    "spec.nodeselector": ({"nodeselector": {}}, "did you mean spec.pod.nodeSelector?"),
    "spec.xyz": ({"xyz": 1}, LIST),
}
"""The path of a mistyped field, the change of a spec that has it, and the direction."""


def test_mistyped_field_is_refused_with_the_meant_field() -> None:
    said = {path: refusal(merged(INFERENCE, {"spec": change})) for path, (change, _) in MISTAKES.items()}
    expected = {path: f"{path} is not a field of a GaudiInference; {advice}" for path, (_, advice) in MISTAKES.items()}
    assert {path: text for path, text in said.items() if expected[path] not in text} == {}


def test_block_may_have_any_field() -> None:
    volumes = [{"name": "a", "emptyDirectory": {}}]
    assert "emptyDirectory" not in refusal(merged(INFERENCE, {"spec": {"pod": {"volumes": volumes}, "xyz": 1}}))


def test_unknown_fields_are_named_before_other_faults() -> None:
    both = merged(INFERENCE, {"spec": {"engine": {"maxNumSeqs": 0}, "image": "a", "env": []}})
    assert refusal(both).count("is not a field of a GaudiInference") == 2
