"""A plan by any strategy: ranges and files are planned by planner.py, and what is optimal in optimal/.

Strategies are told apart here, above both, because the optimizer asks the planner what strategy exponential has.
"""

from gaudi_runtime.buckets.bucket import BucketPlan
from gaudi_runtime.buckets.planner import MAX_CANDIDATES, Sieve, plan_of, plan_of_file, plan_of_ranges
from gaudi_runtime.buckets.ranges import ignored_settings, plan_values
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.errors import PlanImpossible

# What the search of optimal takes is told by no number of buckets; it is about as long as so many take, or longer.
OPTIMAL_CANDIDATES = 20_000


def make_plan(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> BucketPlan:
    """All buckets for a model on a device with `kv_blocks` KV blocks.

    Raises PlanImpossible with a sentence that names the phase, the dimension or the rule at fault.
    """
    if kv_blocks < 1:
        raise PlanImpossible("the device has no room for a single KV block; give it more memory or a smaller model")
    warnings = list(ignored_settings(policy, limits))
    match policy.strategy:
        case Strategy.FILE:
            return plan_of_file(policy.file or "", limits, warnings)
        case Strategy.OPTIMAL:
            return _optimal_plan(policy, limits, kv_blocks, warnings)
    return plan_of_ranges(policy, limits, kv_blocks, warnings)


def candidates(policy: BucketPolicy, limits: Limits, kv_blocks: int) -> int:
    """About as many buckets as make_plan() looks at, known at little cost: its work, whatever becomes of them."""
    if policy.strategy is Strategy.OPTIMAL:
        return OPTIMAL_CANDIDATES
    if policy.strategy is Strategy.FILE:
        return len(policy.file or "")
    try:
        values = plan_values(policy, limits, kv_blocks)
    except PlanImpossible:
        return 0
    prompt = len(values.prompt_batch) * len(values.prompt_query) * len(values.prompt_context)
    decode = len(values.decode_batch) * len(values.decode_blocks)
    return sum(count for count in (prompt, decode) if count <= MAX_CANDIDATES)


def _optimal_plan(policy: BucketPolicy, limits: Limits, kv_blocks: int, warnings: list[str]) -> BucketPlan:
    """What strategy optimal chooses: its buckets break no rule."""
    # Imported here: most plans need no optimizer, and commands start quicker without it.
    from gaudi_runtime.buckets.optimal.strategy import optimal_buckets

    buckets, more = optimal_buckets(policy, limits, kv_blocks)
    prompt, decode = Sieve(BucketPhase.PROMPT), Sieve(BucketPhase.DECODE)
    for sieve, phase in ((prompt, BucketPhase.PROMPT), (decode, BucketPhase.DECODE)):
        for bucket in buckets[phase]:
            sieve.keep(bucket)
    return plan_of(prompt, decode, [*warnings, *more])
