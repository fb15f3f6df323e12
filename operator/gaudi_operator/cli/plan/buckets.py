"""`gaudi-plan buckets`: all buckets that a server prepares."""

from gaudi_operator.cli.plan.asking import asks
from gaudi_operator.cli.plan.output import Answer, Output, OutputOption, write
from gaudi_operator.cli.plan.question import PlanQuestion
from gaudi_runtime.buckets.unified import plan_unified
from gaudi_runtime.contract.bucketing import Strategy
from gaudi_runtime.contract.report import BucketPhase


@asks
def buckets(question: PlanQuestion, output: OutputOption = Output.TABLE) -> None:
    """Print all buckets that a server prepares."""
    unified = question.policy.strategy is Strategy.UNIFIED
    write(_unified(question) if unified else _plan(question), output)


def _plan(question: PlanQuestion) -> Answer:
    plan = question.plan()
    warnings = (*question.warnings, *plan.warnings)

    def show() -> None:
        from gaudi_operator.cli.plan.tables import print_plan

        print_plan(plan)

    return Answer(
        data={"prompt": plan.prompt, "decode": plan.decode, "warnings": warnings},
        rows=lambda: [
            ("phase", "batch_size", "query_len", "num_blocks"),
            *((phase.value, *bucket) for phase in BucketPhase for bucket in plan.of(phase)),
        ],
        show=show,
        warnings=warnings,
    )


def _unified(question: PlanQuestion) -> Answer:
    unified = plan_unified(question.limits, question.blocks)

    def show() -> None:
        from gaudi_operator.cli.plan.tables import print_unified

        print_unified(unified)

    return Answer(
        data={"prompt": (), "decode": (), "unified": unified, "warnings": question.warnings},
        rows=lambda: [("query_len", "shared_blocks", "unique_blocks", "causal"), *unified],
        show=show,
        warnings=question.warnings,
    )
