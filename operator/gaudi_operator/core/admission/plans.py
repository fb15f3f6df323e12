"""The figures of a spec's plan on which admission decides.

Only questions make plans (core/answers.py): a plan may be of any size, so the process that decides holds none.
"""

from dataclasses import dataclass
from math import ceil

from gaudi_operator.api.v1alpha1.spec import GaudiInferenceSpec
from gaudi_operator.core.admission.bounds import most_kv_blocks
from gaudi_operator.core.answers import PlanQuestion
from gaudi_operator.core.rendering.runtime_config import bucket_policy, plan_limits, runtime_config
from gaudi_operator.core.resource import Inference, derived
from gaudi_runtime.buckets.attention_bias import FusedAttention, largest_unindexable
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.bucketing import BucketPolicy, Limits
from gaudi_runtime.knobs.attention import fused_attention
from gaudi_runtime.planning.kept_plans import kept_plan

LEAST_BYTES_PER_INPUT = 4
"""Of a graph: one token id per input position, and nothing else."""


@dataclass(frozen=True)
class PlanFigures:
    """Buckets of a plan by phase, and what readiness makes of it.

    `least_graph_bytes` are those of the smallest graphs that the thresholds ask for; `within` is how many prompt
    buckets have at most the tokens that a graph may have. `unindexable` is the prompt bucket with the largest attention
    bias that the kernel cannot index, None if there is none.
    """

    prompt: int
    decode: int
    least_graph_bytes: int
    within: int
    unindexable: Bucket | None


@dataclass(frozen=True)
class FiguresOf(PlanQuestion[PlanFigures]):
    """Asks for the figures of a plan; the thresholds are percentages, `graph_tokens` the most tokens of a graph.

    `attention` is that of a card, None where no bias is too large.
    """

    kind = PlanFigures
    size = 4 * 1024

    policy: BucketPolicy
    limits: Limits
    kv_blocks: int
    prompt_percent: int
    decode_percent: int
    graph_tokens: int
    attention: FusedAttention | None

    def answer(self) -> PlanFigures:
        """Make the plan and look through it once."""
        plan, block = kept_plan(self.policy, self.limits, self.kv_blocks), self.limits.block_size
        least = _least_graph_bytes(plan.prompt, self.prompt_percent)
        return PlanFigures(
            prompt=len(plan.prompt),
            decode=len(plan.decode),
            least_graph_bytes=least + _least_graph_bytes(plan.decode, self.decode_percent),
            within=sum(
                each.batch_size * (each.query_len + each.num_blocks * block) <= self.graph_tokens
                for each in plan.prompt
            ),
            unindexable=largest_unindexable(plan.prompt, block, self.attention),
        )


def _least_graph_bytes(buckets: tuple[Bucket, ...], percent: int) -> int:
    needed = ceil(len(buckets) * percent / 100)
    sizes = sorted(bucket.batch_size * bucket.query_len for bucket in buckets)
    return LEAST_BYTES_PER_INPUT * sum(sizes[:needed])


@derived
def plan_figures(inference: Inference) -> PlanFigures:
    """Those of the plan with the most buckets that the spec can have. Raises PlanImpossible with the planner's
    sentence, without a full stop, when there is no plan; PlanTooExpensive, and Unanswered.
    """
    return inference.answers.get(_figures_question(inference))


def _figures_question(inference: Inference) -> FiguresOf:
    spec = inference.spec
    limits, readiness, most = plan_limits(spec), spec.readiness, spec.warmup.max_graph_tokens
    return FiguresOf(
        bucket_policy(spec),
        limits,
        most_kv_blocks(spec),
        readiness.min_captured_prompt_percent,
        readiness.min_captured_decode_percent,
        # vLLM's plugin gives no graph to more tokens than a step may have, where nothing is said.
        most or limits.max_num_batched_tokens,
        card_attention(inference),
    )


def card_attention(inference: Inference) -> FusedAttention | None:
    """How a card computes prompts with a context; None where no bias is too large for it."""
    return fused_attention(runtime_config(inference), plain_variables(inference.spec))


def plain_variables(spec: GaudiInferenceSpec) -> dict[str, str]:
    """The variables of engine.env whose values the spec contains."""
    return {each.name: each.value for each in spec.engine.env if each.value is not None}
