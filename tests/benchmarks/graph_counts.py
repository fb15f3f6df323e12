"""Compare the number of graphs and the remaining padding of each strategy on traces.

    python -m tests.benchmarks.graph_counts
    TRACES=folder/with/csv/files python -m tests.benchmarks.graph_counts

The models are the 8B, 70B and 128k examples on their described cards. The traces are the files in TRACES and the file
in tests/data, at their recorded rate and at three times this rate. Every plan is evaluated on the later half of a
trace. Padding is the compute for padding divided by the real compute (typical_cost). Seconds are the estimate for all
graphs of a plan.

Manual decode grids are compared with a search for the same number of graphs. One comparison gives the search the
traffic and has a limit. The other gives it no traffic. The exit code is 1 if a limit is missed.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from gaudi_operator.cli.plan.document import PlanDocument, parse_document, read_plan_document
from gaudi_runtime.buckets.bucket_plan import BucketPlan
from gaudi_runtime.contract.bucketing import BucketPolicy, OptimalSettings, Strategy
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.planning.coverage import plan_coverage
from gaudi_runtime.planning.optimal.cost import price_in_seconds, score_plan_cost, typical_cost
from gaudi_runtime.planning.planner import make_plan
from gaudi_runtime.traffic.histogram import Traffic, format_traffic
from tests.benchmarks.figures import Figure, table
from tests.support.azure_trace import read_requests, requests
from tests.support.grids import GRIDS, decode_grid
from tests.support.policies import EXPONENTIAL
from tests.support.simulated_batching import Request, read_traffic_of_trace

EXAMPLES = Path(__file__).parents[2] / "examples" / "vllm"
MODELS = {"8B": "llama-3.1-8b.yaml", "70B": "tensor-parallel-8.yaml", "128k": "long-context.yaml"}
RIVALS = (Strategy.EXPONENTIAL, Strategy.LINEAR, Strategy.PADDING_AWARE)
RATES = (1, 3)
NOTHING_KNOWN, LEARNED = "Optimal without traffic", "Optimal, learned"
MOST_SHARES = {NOTHING_KNOWN: 0.5, LEARNED: 0.2}
"""The maximum number of graphs, as a share of those of Exponential."""


GRID_MODELS = ("8B", "70B")
"""Manual grids for this number of sequences and blocks per sequence."""


@dataclass(frozen=True)
class Load:
    """The earlier and the later half of a trace, at a multiple of its recorded rate."""

    name: str
    earlier: Traffic
    later: Traffic


def main() -> int:
    """Print a table for each model. Return 1 if a limit was missed."""
    figures = [figure for model in MODELS for figure in _figures(model)]
    sys.stdout.write(f"\n{table(figures)}\n")
    return int(any(figure.missed for figure in figures))


def _figures(model: str) -> Iterator[Figure]:
    question = read_plan_document(parse_document((EXAMPLES / MODELS[model]).read_text()))
    loads = [_load(question, name, trace, rate) for name, trace in traces().items() for rate in RATES]
    known = {each.value: _plan(question, BucketPolicy(strategy=each)) for each in RIVALS}
    known[NOTHING_KNOWN] = _plan(question, BucketPolicy(strategy=Strategy.OPTIMAL))
    rival = known["exponential"]
    sys.stdout.write(f"\n{model}: {MODELS[model]}, {question.blocks} KV blocks\n")
    heads = ("trace", "strategy", "prompt graphs", "decode graphs", "warm-up s", "prompt padding", "decode padding")
    sys.stdout.write("{:20}{:26}{:>15}{:>15}{:>11}{:>16}{:>16}\n".format(*heads))
    for load, other in zip(loads, islice(cycle(loads), len(RATES), None), strict=False):
        learned = _plan(question, _learned(load.earlier))
        plans = {**known, LEARNED: learned, "Optimal, best in hindsight": _hindsight(question, load, learned)}
        if len(loads) > len(RATES):
            plans[f"Optimal, of {other.name}"] = _plan(question, _learned(other.earlier))
        for name, plan in plans.items():
            _print_row(load, name, plan)
        for name, share in MOST_SHARES.items():
            yield from _compared(f"{model}, {load.name}, {name}", plans[name], rival, load, share)
        if model in GRID_MODELS:
            yield from _against_grids(question, f"{model}, {load.name}", load)


def _against_grids(question: PlanDocument, name: str, load: Load) -> Iterator[Figure]:
    """Compare each manual grid with a search for the same number of decode graphs."""
    for grid in GRIDS:
        buckets = decode_grid(grid, question.limits, question.blocks)
        settings = OptimalSettings(prompt_graphs=12, decode_graphs=len(buckets))
        known = settings.model_copy(update={"traffic": format_traffic(load.later)})
        plans = {
            f"grid {grid}": BucketPlan(_plan(question, EXPONENTIAL).prompt, buckets),
            "Optimal for this traffic": _plan(question, BucketPolicy(strategy=Strategy.OPTIMAL, optimal=known)),
            "Optimal without traffic": _plan(question, BucketPolicy(strategy=Strategy.OPTIMAL, optimal=settings)),
        }
        for each, plan in plans.items():
            _print_row(load, each, plan)
        by_hand, *searched = (_paddings(plan, load)[1] for plan in plans.values())
        limits = (1.0, None)
        for title, padding, limit in zip(list(plans)[1:], searched, limits, strict=True):
            yield Figure(f"{name}, {title}, {len(buckets)}: decode compute", padding / by_hand, f"of {grid}", limit)


def traces() -> dict[str, list[Request]]:
    """Return the traces in TRACES and the trace in tests/data."""
    folder = os.environ.get("TRACES")
    found = {} if folder is None else {path.stem: _read(path) for path in sorted(Path(folder).glob("*.csv"))}
    return {"azure_conv": requests(), **found}


def _read(path: Path) -> list[Request]:
    with path.open() as lines:
        return read_requests(lines)


def _load(question: PlanDocument, name: str, trace: list[Request], rate: int) -> Load:
    # A trace does not record which prompts share a prefix, so prefix caching is off. Prompts are not split.
    limits = question.limits.model_copy(update={"prefix_caching": False, "splits_prompts": None})
    faster = [each._replace(arrival=each.arrival / rate) for each in trace]
    middle = len(faster) // 2
    halves = (read_traffic_of_trace(half, limits, question.blocks) for half in (faster[:middle], faster[middle:]))
    return Load(f"{name} x{rate}", *halves)


def _learned(traffic: Traffic) -> BucketPolicy:
    return BucketPolicy(strategy=Strategy.OPTIMAL, optimal=OptimalSettings(traffic=format_traffic(traffic)))


def _hindsight(question: PlanDocument, load: Load, learned: BucketPlan) -> BucketPlan:
    """Return the plan for exactly known traffic, with as many graphs as the learned plan."""
    settings = OptimalSettings(
        traffic=format_traffic(load.later), prompt_graphs=len(learned.prompt), decode_graphs=len(learned.decode)
    )
    return _plan(question, BucketPolicy(strategy=Strategy.OPTIMAL, optimal=settings))


def _plan(question: PlanDocument, policy: BucketPolicy) -> BucketPlan:
    """Return a plan that covers every admissible shape, independent of the traffic."""
    plan = make_plan(policy, question.limits, question.blocks)
    gaps = plan_coverage(plan, question.limits, question.blocks).describe_gaps()
    if gaps and policy.strategy is Strategy.OPTIMAL:
        raise AssertionError(gaps)
    return plan


def _paddings(plan: BucketPlan, load: Load) -> list[float]:
    found = []
    for phase in BucketPhase:
        judged = score_plan_cost(plan, phase, load.later, typical_cost(128))
        found.append(judged.padding if judged.padding is not None and judged.coverage == 1.0 else float("nan"))
    return found


def _print_row(load: Load, name: str, plan: BucketPlan) -> None:
    seconds = sum(price_in_seconds(phase, bucket) for phase in BucketPhase for bucket in plan.buckets_of(phase))
    prompt, decode = _paddings(plan, load)
    counts = f"{len(plan.prompt):15}{len(plan.decode):15}"
    sys.stdout.write(f"{load.name:20.19}{name:26.25}{counts}{seconds:11.0f}{prompt:16.3f}{decode:16.3f}\n")


def _compared(name: str, plan: BucketPlan, rival: BucketPlan, load: Load, share: float) -> Iterator[Figure]:
    graphs = (len(plan.prompt) + len(plan.decode)) / (len(rival.prompt) + len(rival.decode))
    yield Figure(f"{name}: graphs", graphs, "of Exponent.", share)
    for phase, ours, theirs in zip(BucketPhase, _paddings(plan, load), _paddings(rival, load), strict=True):
        yield Figure(f"{name}: {phase} compute", ours / theirs, "of Exponent.", 1.0)


if __name__ == "__main__":
    sys.exit(main())
