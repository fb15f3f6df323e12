"""The plan figures that admission checks, such as bucket counts and the minimum graph memory.

Only plan questions compute plans (core/plan_answers.py). A plan may be very large, so the operator process stores only
figures.
"""

from dataclasses import dataclass
from math import ceil

from gaudi_operator.core.admission.kv_cache_bounds import max_kv_blocks
from gaudi_operator.core.plan_answers import PlanQuestion
from gaudi_operator.core.rendering.runtime_config import bucket_policy, plan_limits, runtime_config
from gaudi_operator.core.resource import Inference, cache_on_inference
from gaudi_runtime.buckets.attention_bias import FusedAttention, largest_unindexable
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.knobs.attention_settings import fused_attention
from gaudi_runtime.planning.kept_plans import kept_plan

LEAST_BYTES_PER_INPUT = 4
"""The minimum bytes of a graph per input position, which is the size of a token ID."""


@dataclass(frozen=True)
class AdmissionFigures:
    """The plan figures that admission checks.

    `prompt` and `decode` are bucket counts. `min_graph_bytes` is the size of the smallest graphs that meet the
    thresholds. `prompts_within_limit` is the number of prompt buckets within the token limit of a graph. `unindexable`
    is the prompt bucket whose attention bias is too large for the index of the kernel, or None. If there are several
    such buckets, it is the one with the largest bias.
    """

    prompt: int
    decode: int
    min_graph_bytes: int
    prompts_within_limit: int
    unindexable: Bucket | None


@dataclass(frozen=True)
class AdmissionFiguresQuestion(PlanQuestion[AdmissionFigures]):
    """The question for the plan figures that admission checks.

    The thresholds are percentages. `graph_tokens` is the maximum number of tokens of a graph. `attention` is the
    attention of the card, or None if the card accepts any attention bias.
    """

    kind = AdmissionFigures
    size = 4 * 1024

    policy: BucketPolicy
    limits: Limits
    kv_blocks: int
    prompt_percent: int
    decode_percent: int
    graph_tokens: int
    attention: FusedAttention | None

    def answer(self) -> AdmissionFigures:
        """Compute the plan and its figures."""
        plan, block_size = kept_plan(self.policy, self.limits, self.kv_blocks), self.limits.block_size
        prompt_bytes = _least_graph_bytes(plan.prompt, self.prompt_percent)
        return AdmissionFigures(
            prompt=len(plan.prompt),
            decode=len(plan.decode),
            min_graph_bytes=prompt_bytes + _least_graph_bytes(plan.decode, self.decode_percent),
            prompts_within_limit=sum(
                bucket.batch_size * (bucket.query_len + bucket.num_blocks * block_size) <= self.graph_tokens
                for bucket in plan.prompt
            ),
            unindexable=largest_unindexable(plan.prompt, block_size, self.attention),
        )


def _least_graph_bytes(buckets: tuple[Bucket, ...], percent: int) -> int:
    graph_count = ceil(len(buckets) * percent / 100)
    input_counts = sorted(bucket.batch_size * bucket.query_len for bucket in buckets)
    return LEAST_BYTES_PER_INPUT * sum(input_counts[:graph_count])


@cache_on_inference
def admission_figures(inference: Inference) -> AdmissionFigures:
    """Return the plan figures that admission checks, for the largest plan that the spec can have.

    Raises PlanImpossible with the planner's message, without a full stop, if there is no plan. Also raises
    PlanTooExpensive and AnswerNotComputed.
    """
    return inference.answers.get(_figures_question(inference))


def _figures_question(inference: Inference) -> AdmissionFiguresQuestion:
    spec = inference.spec
    limits, readiness, max_graph_tokens = plan_limits(spec), spec.readiness, spec.warmup.max_graph_tokens
    return AdmissionFiguresQuestion(
        bucket_policy(spec),
        limits,
        max_kv_blocks(spec),
        readiness.min_captured_prompt_percent,
        readiness.min_captured_decode_percent,
        # By default, vLLM's plugin captures no graph that has more tokens than one step may have.
        max_graph_tokens or limits.max_num_batched_tokens,
        card_attention(inference),
    )


def card_attention(inference: Inference) -> FusedAttention | None:
    """Return the attention of the card for the plan figures, or None if the card accepts any attention bias."""
    return fused_attention(runtime_config(inference), {})
