"""A standard run of the plugin: the start, a fixed set of requests, and the counts."""

from pathlib import Path
from typing import Any

from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.planner import make_plan
from tests.plugin.engine import Facts, Run, shape_name

PROMPTS = [[(7 * row + 3 * at) % 500 for at in range(length)] for row, length in enumerate((90, 300, 17, 400, 128, 3))]
TOKENS = 20


async def start_and_serve(run: Run) -> Facts:
    """Start the engine and send the requests.

    Return the report, the plan, the answers, and rank facts before and after.
    """
    report = await run.start()
    plan = make_plan(run.config.bucketing, run.config.limits, report.memory.kv_blocks if report.memory else 0)
    before = run.ranks()
    answers = run.answer(PROMPTS, TOKENS)
    run.answer(PROMPTS[:1], 5, temperature=0.8, top_p=0.9, top_k=40)  # This needs another sampler than greedy decoding.
    counters = await run.count_batches()
    return {
        "report": report.model_dump(mode="json"),
        "plan": {each.value: [list(bucket) for bucket in plan.buckets_of(each)] for each in BucketPhase},
        "before": before,
        "answers": answers,
        "after": run.ranks(),
        "counted": counters,
        "hits": run.engine.counters.hits,
        "cold": {shape_name(key[0].value, key[1]): count for key, count in run.engine.counters.cold_batches.items()},
        "recompiles": run.engine.counters.recompiles,
    }


def planned_shapes(facts: Facts) -> list[str]:
    """Return the shape names of all planned buckets."""
    return [shape_name(phase, bucket) for phase, buckets in facts["plan"].items() for bucket in buckets]


def skipped_shapes(facts: Facts) -> dict[str, str]:
    """Return the buckets without a graph, and the report's reason for each bucket."""
    return {shape_name(each["phase"], each["bucket"]): each["reason"] for each in facts["report"]["skipped"]}


def largest_logit_gap(checkpoint: Path, answers: list[tuple[list[int], list[int]]]) -> float:
    """Return the largest difference in logits between the best token and the chosen token.

    transformers computes the logits in bfloat16, the precision of the card.
    """
    import torch
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.bfloat16)
    worst = 0.0
    for prompt, answer in answers:
        with torch.no_grad():
            logits = model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1].float()
        chosen = logits[torch.arange(len(answer)), torch.tensor(answer)]
        worst = max(worst, float((logits.max(dim=-1).values - chosen).max()))
    return worst
