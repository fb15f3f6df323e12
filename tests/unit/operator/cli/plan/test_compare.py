from tests.unit.operator.cli.plan.asked import answer, plan

LIMITS = {"max_model_len": 2048, "max_num_seqs": 8, "max_num_batched_tokens": 2048, "num_blocks": 200}


def test_strategies_stand_side_by_side_with_what_they_take() -> None:
    result = answer(LIMITS, command="compare")
    assert list(result["strategies"]) == ["Exponential", "Linear", "PaddingAware", "Optimal"]
    exponential = result["strategies"]["Exponential"]
    assert exponential["prompt_graphs"] == len(answer(LIMITS)["prompt"])
    assert exponential["warmup_seconds"] > 0


def test_batches_without_a_bucket_are_counted() -> None:
    gappy = LIMITS | {"max_num_seqs": 100}
    assert answer(gappy, command="compare")["strategies"]["Linear"]["admissible_without_bucket"] > 0


def test_strategy_that_has_no_plan_is_refused_with_its_sentence() -> None:
    short = LIMITS | {"env": {"VLLM_PROMPT_QUERY_BUCKET_MIN": 4096}}
    result = answer(short, command="compare")
    assert "bucketing.prompt.query: min 4096" in result["refused"]["Linear"]


def test_estimates_are_called_estimates() -> None:
    assert any("estimates" in warning for warning in answer(LIMITS, command="compare")["warnings"])


def test_table_shows_all_strategies() -> None:
    shown = plan(LIMITS, command="compare").stdout
    assert all(name in shown for name in ("Exponential", "Linear", "PaddingAware", "Optimal"))


def test_graph_bytes_of_the_default_mode_are_unknown() -> None:
    spec = {
        "model": {"source": {"persistentVolumeClaim": {"claimName": "models"}}, "maxModelLen": 4096},
        "accelerator": {"generation": "gaudi3"},
        "engine": {"name": "vllm"},
    }
    manifest = {"apiVersion": "inference.gaudi.dev/v1alpha1", "kind": "GaudiInference", "spec": spec}
    result = answer(manifest, command="compare")
    assert {each["graph_bytes"] for each in result["strategies"].values()} == {None}
    assert all(each["warmup_seconds"] > 0 for each in result["strategies"].values())
    assert any(said.startswith("graph_bytes are unknown in TorchCompile") for said in result["warnings"])
    assert "unknown" in plan(manifest, command="compare").stdout
    spec["engine"]["executionMode"] = "HpuGraphs"
    assert all(each["graph_bytes"] > 0 for each in answer(manifest, command="compare")["strategies"].values())
