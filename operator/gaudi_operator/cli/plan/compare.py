"""`gaudi-plan compare`: the strategies side by side, before there is any traffic."""

from typing import Any

from gaudi_operator.cli.plan.asking import asks
from gaudi_operator.cli.plan.output import Answer, Output, OutputOption, write
from gaudi_operator.cli.plan.question import PlanQuestion
from gaudi_runtime.contract.bucketing import Strategy

HEADER = ("strategy", "prompt_graphs", "decode_graphs", "graph_bytes", "warmup_seconds", "admissible_without_bucket")


@asks
def compare(question: PlanQuestion, output: OutputOption = Output.TABLE) -> None:
    """Show what each strategy would prepare: graphs, memory, warm-up, and batches left without a bucket.

    For padding on real traffic see: gaudi-plan trace --help

    Example:

        gaudi-plan compare -f model.yaml
    """
    # Imported here: no other command pays for it.
    from gaudi_operator.cli.plan.rivals import outcome, rival_plans

    plans = dict(rival_plans(question.policy, question.limits, question.blocks))
    if question.policy.optimal:
        wish = question.policy.model_copy(update={"strategy": Strategy.OPTIMAL})
        plans[Strategy.OPTIMAL] = outcome(wish, question.limits, question.blocks)
    facts = {name.value: _facts(question, plan) for name, plan in plans.items() if not isinstance(plan, str)}
    refused = {name.value: plan for name, plan in plans.items() if isinstance(plan, str)}
    said = (
        *question.warnings,
        "graph_bytes and warmup_seconds are estimates for all graphs, from the rates that the seeds logged for "
        "Llama 3.1 8B on one Gaudi 2",
    )
    write(
        Answer(
            data={"strategies": facts, **({"refused": refused} if refused else {}), "warnings": said},
            rows=lambda: [HEADER, *((name, *each.values()) for name, each in facts.items())],
            show=lambda: _show(facts, refused),
            warnings=said,
        ),
        output,
    )


def _facts(question: PlanQuestion, plan: Any) -> dict[str, float]:
    """What a plan takes and leaves out; the estimates are rounded to what they are worth."""
    from gaudi_runtime.buckets.coverage import uncovered
    from gaudi_runtime.contract.report import BucketPhase
    from gaudi_runtime.optimal import prices

    missing = uncovered(plan, question.limits, question.blocks)
    buckets = [(phase, bucket) for phase in BucketPhase for bucket in plan.of(phase)]
    bytes_of = prices.graph_bytes(question.limits.block_size)
    return {
        "prompt_graphs": len(plan.prompt),
        "decode_graphs": len(plan.decode),
        "graph_bytes": round(sum(bytes_of(*each) for each in buckets)),
        "warmup_seconds": round(sum(prices.warmup_seconds(*each) for each in buckets), 1),
        "admissible_without_bucket": missing.prompt.missing + missing.decode.missing,
    }


def _show(facts: dict[str, dict[str, float]], refused: dict[str, str]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="estimated for all graphs of a plan")
    table.add_column("strategy", no_wrap=True)
    for title in ("prompt graphs", "decode graphs", "GiB", "warm-up s", "shapes without bucket"):
        table.add_column(title, justify="right")
    for name, each in facts.items():
        gib, seconds = f"{each['graph_bytes'] / 2**30:.1f}", f"{each['warmup_seconds']:.0f}"
        graphs = (f"{each['prompt_graphs']}", f"{each['decode_graphs']}")
        table.add_row(name, *graphs, gib, seconds, f"{each['admissible_without_bucket']}")
    Console().print(table)
    for name, why in refused.items():
        Console().print(f"{name}: {why}")
