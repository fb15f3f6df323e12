"""A draft model (eagle) with the plugin's own worker. The plugin's warm-up does not run the draft shapes.

We therefore refuse draft models (docs/internals/vllm.md, Draft models). If a test fails with a new release of the
plugin, reconsider the refusal.
"""

import json
import os
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.plugin.engine import Facts, call_in_fork
from tests.plugin.serving import largest_logit_gap

DRAFTS, ROWS, LONGEST = 2, 4, 512
PROMPTS = [[(7 * row + 3 * at) % 500 for at in range(length)] for row, length in enumerate((90, 200, 17))]
TOKENS = 12
BUCKETS = {
    "VLLM_BUCKETING_STRATEGY": "lin",
    "VLLM_PROMPT_SEQ_BUCKET_MIN": "128",
    "VLLM_PROMPT_SEQ_BUCKET_MAX": "256",
    "VLLM_DECODE_BLOCK_BUCKET_MIN": "8",
    "VLLM_DECODE_BLOCK_BUCKET_STEP": "8",
    "VLLM_DECODE_BLOCK_BUCKET_MAX": "16",
}


def make_draft(target: Path, folder: Path) -> Path:
    """Write an eagle checkpoint for a tiny Llama.

    The only layer has its own weights, and takes token and hidden state.
    """
    import torch
    from safetensors.torch import save_file

    config = json.loads((target / "config.json").read_text())
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = head * config["num_attention_heads"], head * config["num_key_value_heads"]
    sizes = {
        "fc": (hidden, 2 * hidden),
        "layers.0.self_attn.q_proj": (queries, hidden),
        "layers.0.self_attn.k_proj": (keys, hidden),
        "layers.0.self_attn.v_proj": (keys, hidden),
        "layers.0.self_attn.o_proj": (hidden, queries),
        "layers.0.mlp.gate_proj": (inner, hidden),
        "layers.0.mlp.up_proj": (inner, hidden),
        "layers.0.mlp.down_proj": (hidden, inner),
    }
    chance = torch.Generator().manual_seed(1)
    weights = {f"{name}.weight": torch.randn(*size, generator=chance) * 0.05 for name, size in sizes.items()}
    weights["layers.0.post_attention_layernorm.weight"] = torch.ones(hidden)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def start_and_draft(target: Path, folder: Path) -> Facts:
    """Start the plugin with its own worker. Return the shapes that the draft model runs during and after warm-up."""
    os.environ.update(BUCKETS, PT_HPU_LAZY_MODE="0", VLLM_CONTIGUOUS_PA="false", VLLM_ENABLE_V1_MULTIPROCESSING="0")
    from torch._dynamo.utils import counters
    from vllm.engine.arg_utils import EngineArgs
    from vllm.inputs import TokensPrompt
    from vllm.sampling_params import SamplingParams
    from vllm.v1.engine.llm_engine import LLMEngine
    from vllm_gaudi.v1.spec_decode.hpu_eagle import HpuEagleProposer
    from vllm_gaudi.v1.worker.hpu_model_runner import HPUModelRunner

    ran: Counter[str] = Counter()
    checks: Counter[str] = Counter()
    found: Facts = {"compiled": 0, "checked": 0, "proposed": 0}
    load, propose, check = HpuEagleProposer.load_model, HpuEagleProposer.propose, HPUModelRunner._check_config

    def load_watched(self: HpuEagleProposer, *model: object) -> None:
        load(self, *model)
        forward = self.model.forward

        def watched(*args: object, **named: object) -> object:
            ran["x".join(map(str, named["input_ids"].shape))] += 1  # type: ignore[attr-defined]
            return forward(*args, **named)

        self.model.forward = watched

    def count_checks(self: HPUModelRunner, *shape: object) -> object:
        checks["of any phase"] += 1
        return check(self, *shape)

    def count_draft_shapes(self: HpuEagleProposer, *args: object) -> object:
        graphs, checked = counters["stats"]["unique_graphs"], checks.total()
        drafts = propose(self, *args)
        found["proposed"] += 1
        found["compiled"] += counters["stats"]["unique_graphs"] - graphs
        found["checked"] += checks.total() - checked
        return drafts

    HpuEagleProposer.load_model, HpuEagleProposer.propose = load_watched, count_draft_shapes
    HPUModelRunner._check_config = count_checks
    draft = make_draft(target, folder / "draft")
    engine = LLMEngine.from_engine_args(
        EngineArgs(
            model=str(target),
            dtype="bfloat16",
            max_model_len=LONGEST,
            max_num_seqs=ROWS,
            max_num_batched_tokens=LONGEST + ROWS * (1 + DRAFTS),
            block_size=128,
            enable_prefix_caching=False,
            speculative_config={"method": "eagle", "model": str(draft), "num_speculative_tokens": DRAFTS},
        )
    )
    found |= {
        "warmed": dict(ran),
        "compiled_in_all": counters["stats"]["unique_graphs"],
        "checked_in_all": checks.total(),
    }
    ran.clear()
    sampling = SamplingParams(max_tokens=TOKENS, ignore_eos=True, temperature=0.0)
    for number, prompt in enumerate(PROMPTS):
        engine.add_request(str(number), TokensPrompt(prompt_token_ids=prompt), sampling)
    answers: dict[str, list[int]] = {}
    while engine.has_unfinished_requests():
        answers |= {each.request_id: list(each.outputs[0].token_ids) for each in engine.step() if each.finished}
    return {**found, "served": dict(ran), "answers": [answers[str(number)] for number in range(len(PROMPTS))]}


@pytest.fixture(scope="module")
def facts(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Facts:
    if not os.environ.get("PLUGIN_MATRIX"):
        pytest.skip("one more start: in make plugin only")
    folder = tmp_path_factory.mktemp("draft-model")
    found: Facts = call_in_fork(partial(start_and_draft, checkpoints["llama"], folder), folder)
    return found


def test_plugin_does_not_compile_graphs_of_a_draft_model(facts: Facts) -> None:
    assert facts["compiled_in_all"] > 0
    assert (facts["compiled"], facts["proposed"] > 0) == (0, True)


def test_plugin_does_not_check_shapes_of_a_draft_model(facts: Facts) -> None:
    assert facts["checked_in_all"] > 0
    assert facts["checked"] == 0


def test_requests_run_draft_shapes_that_were_not_warmed_up(facts: Facts) -> None:
    verifying, drafting = f"{ROWS * (1 + DRAFTS)}x1", f"{ROWS}x1"
    assert {verifying, drafting} <= facts["served"].keys() - facts["warmed"].keys()


def test_tokens_with_a_draft_model_equal_those_of_transformers(
    facts: Facts, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    answers = list(zip(PROMPTS, facts["answers"], strict=True))
    assert call_in_fork(partial(largest_logit_gap, checkpoints["llama"], answers), tmp_path) < 0.15


def hash_draft_model_inputs() -> str:
    import torch
    from vllm_gaudi.v1.attention.backends.hpu_attn import HPUAttentionMetadataV1

    blocks = torch.zeros(8, dtype=torch.long)
    given = HPUAttentionMetadataV1.make_decode_metadata(
        block_list=blocks,
        block_usage=blocks,
        block_groups=blocks,
        input_positions=None,
        slot_mapping=blocks,
        block_size=128,
        window_block_list=None,
        window_block_usage=None,
        window_block_groups=None,
        chunked_block_list=None,
        chunked_block_usage=None,
        chunked_block_groups=None,
    )
    try:
        return str(hash(given))
    except TypeError as error:
        return str(error)


def test_hashing_inputs_of_a_draft_model_raises_a_type_error(tmp_path: Path) -> None:
    assert call_in_fork(hash_draft_model_inputs, tmp_path) == "unhashable type: 'HPUAttentionMetadataV1'"
