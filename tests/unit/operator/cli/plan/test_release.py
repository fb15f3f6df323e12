"""Plans for vLLM release 1.22 differ from those of the current release."""

from tests.unit.operator.cli.plan.asked import answer

LIMITS = {
    "release": "1.22",
    "max_num_seqs": 4,
    "max_num_prefill_seqs": 4,
    "max_num_batched_tokens": 8192,
    "max_model_len": 4096,
    "num_blocks": 5746,
    "prefix_caching": False,
}


def test_release_1_22_has_a_different_plan() -> None:
    printed = answer(LIMITS)
    assert (len(printed["prompt"]), len(printed["decode"])) == (36, 42)


def test_variable_ignored_by_release_1_22_causes_a_warning() -> None:
    said = answer(LIMITS | {"env": {"VLLM_DECODE_BS_BUCKET_MAX": 2}})["warnings"]
    assert said[0].startswith("bucketing.decode.batchSize.max is ignored")
