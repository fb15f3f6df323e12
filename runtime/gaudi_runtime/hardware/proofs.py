"""The proofs of a hardware trial: the properties that a card must have, decided only by the recorded facts."""

from collections.abc import Callable

from gaudi_runtime.contract.compiles import COMPILE_BOUNDS, RECOMPILATION_SECONDS, CompileTimes
from gaudi_runtime.contract.config import EngineName, RuntimeConfig
from gaudi_runtime.contract.report import Phase, PhaseProgressReport, WarmupReport
from gaudi_runtime.hardware.report import (
    HardwareReport,
    ReportInstanceStart,
    ReportProof,
    ReportProofOutcome,
    ReportTrialTraffic,
)
from gaudi_runtime.units import format_bytes, plural

ALLOWED_DIFFERENCE = 0.1
"""The allowed difference between an allocation and the fall of the free memory. A card allocates whole pages."""

Verdict = tuple[bool | None, str]
"""True, false or None (not tried), and a sentence with the figures."""


def evaluate_proofs(facts: HardwareReport) -> tuple[ReportProof, ...]:
    """Return all proofs for the facts of a hardware trial, in the order of the trial."""
    return tuple(_proof(name, rule(facts)) for name, rule in RULES.items())


def _proof(name: str, verdict: Verdict) -> ReportProof:
    proven, evidence = verdict
    outcome = (
        ReportProofOutcome.NOT_TRIED
        if proven is None
        else ReportProofOutcome.PROVEN
        if proven
        else ReportProofOutcome.DISPROVEN
    )
    return ReportProof(name=name, outcome=outcome, evidence=evidence)


def _check_doctor(facts: HardwareReport) -> Verdict:
    """Check that no row of the doctor failed."""
    failed_rows = [f"{row.topic}: {row.found}" for row in facts.doctor if row.state == "fail"]
    return not failed_rows, "; ".join(failed_rows) or f"{plural(len(facts.doctor), 'row')}, none failed."


def _check_metric(facts: HardwareReport) -> Verdict:
    """Check that the bridge counts the recipe of a new size."""
    if facts.card is None:
        return None, "No card was tried."
    if not facts.card.recipes:
        return False, "The bridge counts no recipe for a new size, so recompilations cannot be seen."
    return True, f"The bridge counted {plural(facts.card.recipes, 'recipe')} for a new size."


def _check_free_memory(facts: HardwareReport) -> Verdict:
    """Check that an allocation lowers the free memory of the card by its size."""
    if facts.card is None:
        return None, "No card was tried."
    allocated, lowered = facts.card.allocated, facts.card.lowered
    figures = f"An allocation of {format_bytes(allocated)} lowered the free memory by {format_bytes(lowered)}"
    if abs(lowered - allocated) > allocated * ALLOWED_DIFFERENCE:
        return False, f"{figures}, so the memory for graphs cannot be measured."
    return True, f"{figures}."


def _check_recipe_reuse(facts: HardwareReport) -> Verdict:
    """Check that the captures of the small start use the recipes of its compilations."""
    report = facts.small_start.report if facts.small_start else None
    if report is None or not report.prompt.captured + report.decode.captured:
        return None, "No graph was captured by a small instance."
    again = sum(times.recipes for times in report.served.compile_times if times.stage == "capture")
    captured_count = report.prompt.captured + report.decode.captured
    figures = f"{plural(captured_count, 'capture')} compiled {plural(again, 'recipe')}"
    # A helper of the plugin may compile a small recipe in a capture. Without reuse, each capture compiles its own.
    if again >= captured_count:
        return False, f"{figures} again, so warm-up takes twice as long."
    return True, f"{figures}."


def _check_gate(facts: HardwareReport) -> Verdict:
    """Check that no instance accepted traffic before all graphs were captured."""
    if not facts.starts:
        return None, "No instance started."
    early_polls = [(start, poll) for start in facts.starts for poll in start.early]
    polls = sum(start.polls for start in facts.starts)
    if early_polls:
        start, poll = early_polls[0]
        state = "ready" if poll.ready else "open"
        when = f"{poll.seconds:.1f} s after its start"
        return False, f"The {start.name} instance was {state} {when}, but it was still in phase {poll.phase}."
    return True, f"No instance was ready or open before phase Serving ({_format_start_count(facts)}, {polls} polls)."


def _check_graphs(facts: HardwareReport) -> Verdict:
    """Check that every planned bucket is warm, and is either captured or reported as skipped."""
    if not facts.starts:
        return None, "No instance started."
    incomplete_starts = [start.name for start in facts.starts if not _is_complete(start.report)]
    bucket_counts = "; ".join(
        f"{start.name} ({start.strategy}): {_format_counts(start.report)} in {_warmup_seconds(start):.1f} s"
        for start in facts.starts
    )
    return not incomplete_starts, f"{bucket_counts}."


def _is_complete(report: WarmupReport) -> bool:
    planned_count = report.prompt.planned + report.decode.planned
    phases = (report.prompt, report.decode)
    captured_count = sum(phase.prepared for phase in phases)
    return planned_count > 0 and captured_count + report.skipped_total == planned_count


def _format_counts(report: WarmupReport) -> str:
    skipped_text = f", {report.skipped_total} left out and reported" if report.skipped_total else ""
    return f"prompt {_format_progress(report.prompt)}, decode {_format_progress(report.decode)}{skipped_text}"


def _format_progress(progress: PhaseProgressReport) -> str:
    return f"{progress.prepared}/{progress.planned}"


def _check_serving(facts: HardwareReport) -> Verdict:
    """Check that requests of every kind use only warm graphs, with each strategy."""
    served = [(start.name, start.traffic) for start in facts.starts if start.traffic]
    if not served:
        return None, "No instance served."
    verdicts = [(name, *_judge_traffic(traffic, facts.config)) for name, traffic in served]
    outcomes = [outcome for _, outcome, _ in verdicts]
    outcome = False if False in outcomes else None if None in outcomes else True
    return outcome, " ".join(f"{name}: {figures}" for name, _, figures in verdicts)


def _judge_traffic(traffic: ReportTrialTraffic, config: RuntimeConfig) -> Verdict:
    report = traffic.report
    skipped_buckets = {(skipped.phase, skipped.bucket) for skipped in report.skipped}
    cold_batches = [batch for batch in report.cold_shapes if (batch.phase, batch.shape) not in skipped_buckets]
    hits = report.served.prompt.hits + report.served.decode.hits
    misses = report.served.prompt.misses + report.served.decode.misses
    figures = (
        f"{plural(traffic.requests, 'request')}, {len(traffic.failures)} failed. {plural(hits, 'batch', 'batches')} "
        f"with a graph, {misses} without a graph. {plural(report.recompiles_since_ready, 'recompile')}"
    )
    if traffic.failures or not traffic.requests or not hits:
        return False, f"{figures}."
    if cold_batches:
        figures += f". Cold shapes: {', '.join(f'{batch.phase} {batch.shape}' for batch in cold_batches)}"
    is_warm = not cold_batches and not report.recompiles_since_ready
    # A later part of a split prompt has a context. A plan without contexts has no buckets for such parts.
    limits = config.limits
    splits = config.engine.chunked_prefill and not (limits.has_context or limits.steps_by_tokens)
    if not is_warm and (splits or (report.gaps and report.gaps.message)):
        return None, f"{figures}. The plan has gaps."
    return is_warm, f"{figures}."


def _check_compile_times(facts: HardwareReport) -> Verdict:
    """Check that only compiles of buckets in warm-up take longer than the recompilation threshold.

    Each bucket of the first start is a new size, so a bridge that counted no compile there cannot show recompilations.
    """
    if facts.config.engine.name is not EngineName.VLLM or facts.config.engine.device != "hpu":
        return None, "There is no bridge that compiles."
    served = next((start.traffic.report.served for start in facts.starts if start.traffic), None)
    if served is None:
        return None, "No instance served."
    stages = {times.stage: times for times in served.compile_times}
    if "warm" not in stages:
        return False, "The bridge counted no compile of a new size, so recompilations cannot be seen."
    figures = "; ".join(
        f"{times.stage}: {plural(times.recipes, 'recipe')}, {_format_compile_times(times)}" for times in stages.values()
    )
    short_count = _count_short_compiles(stages["warm"])
    later = [stages[stage] for stage in ("capture", "serving") if stage in stages]
    long_count = sum(sum(times.counts) - _count_short_compiles(times) for times in later)
    return not short_count and not long_count, f"{figures}. The threshold is {_format_seconds(RECOMPILATION_SECONDS)}."


def _format_compile_times(times: CompileTimes) -> str:
    bound_counts = zip(COMPILE_BOUNDS, times.counts, strict=False)
    entries = [f"{count} up to {_format_seconds(bound)}" for bound, count in bound_counts if count]
    longer_count = sum(times.counts[len(COMPILE_BOUNDS) :])
    return ", ".join([*entries, *([f"{longer_count} longer"] if longer_count else [])])


def _format_seconds(seconds: float) -> str:
    return f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1000:g} ms"


def _count_short_compiles(times: CompileTimes) -> int:
    """Return the number of compiles that take at most the threshold."""
    bound_counts = zip(COMPILE_BOUNDS, times.counts, strict=False)
    return sum(count for bound, count in bound_counts if bound <= RECOMPILATION_SECONDS)


def _check_recipes(facts: HardwareReport) -> Verdict:
    """Check that a second start loads the recipes that the first start compiled."""
    if len(facts.starts) < 2:
        return None, "Only one instance started." if facts.starts else "No instance started."
    first, second = facts.starts[:2]
    cached = second.report.prompt.cached + second.report.decode.cached
    planned = second.report.prompt.planned + second.report.decode.planned
    times = (
        f"Warm-up took {_warmup_seconds(first):.1f} s without recipes and {_warmup_seconds(second):.1f} s with recipes"
    )
    # A bucket that was skipped has no recipe, so count it as complete.
    return cached + second.report.skipped_total >= planned > 0, f"{cached} of {planned} buckets had a recipe. {times}."


def _warmup_seconds(start: ReportInstanceStart) -> float:
    return sum(start.phases.get(phase, 0.0) for phase in (Phase.COMPILING, Phase.SAMPLER, Phase.CAPTURING))


def _check_answers(facts: HardwareReport) -> Verdict:
    """Check that both instances give the same answers to greedy requests."""
    alike = facts.answers_alike
    if alike is None:
        return None, "No second instance gave answers to compare."
    return alike, f"Two instances with the same plan give {'the same' if alike else 'different'} greedy answers."


def find_reason_to_end(facts: HardwareReport) -> str | None:
    """Return the evidence of the first early proof that failed; None if the trial can go on.

    The early proofs need minutes. After one of them has failed, a complete start would only waste hours.
    """
    verdicts = [RULES[name](facts) for name in EARLY_PROOFS]
    return next((evidence for proven, evidence in verdicts if proven is False), None)


def _format_start_count(facts: HardwareReport) -> str:
    return plural(len(facts.starts), "start")


RULES: dict[str, Callable[[HardwareReport], Verdict]] = {
    "machine": _check_doctor,
    "compile metric": _check_metric,
    "free memory": _check_free_memory,
    "recipe reuse": _check_recipe_reuse,
    "gate": _check_gate,
    "graphs": _check_graphs,
    "no cold shape, no recompile": _check_serving,
    "compile times": _check_compile_times,
    "recipes": _check_recipes,
    "answers": _check_answers,
}
EARLY_PROOFS = ("compile metric", "free memory", "recipe reuse")
