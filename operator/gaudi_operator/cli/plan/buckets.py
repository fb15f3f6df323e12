"""`gaudi-plan buckets`: all buckets that a server prepares."""

from gaudi_operator.cli.plan.options import BucketFile, Document, KvBlocks, Output, OutputOption, one_sentence
from gaudi_operator.cli.plan.printing import print_json, warn
from gaudi_operator.cli.plan.question import PlanQuestion, ask
from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.buckets.unified import plan_unified
from gaudi_runtime.contract.bucketing import Strategy


def buckets(
    file: Document,
    output: OutputOption = Output.TABLE,
    kv_blocks: KvBlocks = None,
    bucket_file: BucketFile = None,
) -> None:
    """Print all buckets that a server prepares."""
    with one_sentence():
        question = ask(file, bucket_file, kv_blocks)
        if question.policy.strategy is Strategy.UNIFIED:
            _print_unified(question, output)
        else:
            _print_plan(question.plan(), question.warnings, output)


def _print_plan(plan: BucketPlan, warnings: tuple[str, ...], output: Output) -> None:
    warnings = (*warnings, *plan.warnings)
    if output is Output.JSON:
        print_json({"prompt": plan.prompt, "decode": plan.decode, "warnings": warnings})
        return
    from gaudi_operator.cli.plan.tables import print_plan

    print_plan(plan)
    warn(warnings)


def _print_unified(question: PlanQuestion, output: Output) -> None:
    unified = plan_unified(question.limits, question.blocks)
    if output is Output.JSON:
        print_json({"unified": unified, "warnings": question.warnings})
        return
    from gaudi_operator.cli.plan.tables import print_unified

    print_unified(unified)
    warn(question.warnings)
