"""The proofs of a hardware trial: the properties that a card must have, decided only by the recorded facts."""

from collections.abc import Callable

from gaudi_runtime.contract.report import (
    COMPILE_BOUNDS,
    RECOMPILATION_SECONDS,
    CompileTimes,
    Phase,
    PhaseProgress,
    WarmupReport,
)
from gaudi_runtime.hardware.report import HardwareReport, InstanceStart, Proof, ProofOutcome, TrialTraffic
from gaudi_runtime.units import plural

Verdict = tuple[bool | None, str]
"""True, false or None (not tried), and a sentence with the figures."""


def evaluate_trial(facts: HardwareReport) -> tuple[Proof, ...]:
    """Return all proofs for the facts of a hardware trial, in the order of the trial."""
    return tuple(_proof(name, rule(facts)) for name, rule in RULES.items())


def _proof(name: str, verdict: Verdict) -> Proof:
    proven, evidence = verdict
    outcome = ProofOutcome.NOT_TRIED if proven is None else ProofOutcome.PROVEN if proven else ProofOutcome.DISPROVEN
    return Proof(name=name, outcome=outcome, evidence=evidence)


def check_plugin_names(facts: HardwareReport) -> Verdict:
    """Check that the installed plugin has every name that the runtime uses."""
    if not facts.names:
        return None, "The vLLM plugin vllm-gaudi is not installed."
    wrong = [f"{each.owner}.{each.name}" for each in facts.names if not each.fits]
    needed = [f"{each.owner}.{each.name}" for each in facts.names if each.needed and not each.fits]
    counted = f"{len(facts.names) - len(wrong)} of {len(facts.names)} names that the runtime uses match"
    differing = f", but these names do not: {', '.join(wrong)}" if wrong else ""
    return not needed, f"{counted}{differing}."


def check_doctor(facts: HardwareReport) -> Verdict:
    """Check that no row of the doctor failed."""
    failed = [f"{each.topic}: {each.found}" for each in facts.doctor if each.state == "fail"]
    return not failed, "; ".join(failed) or f"{plural(len(facts.doctor), 'row')}, none failed."


def check_gate(facts: HardwareReport) -> Verdict:
    """Check that no instance accepted traffic before all graphs were captured."""
    if not facts.starts:
        return None, "No instance started."
    early = [(start, look) for start in facts.starts for look in start.early]
    polls = sum(start.polls for start in facts.starts)
    if early:
        start, look = early[0]
        what = "ready" if look.ready else "open"
        when = f"{look.seconds:.1f} s after its start"
        return False, f"The {start.name} instance was {what} {when}, but it was still in phase {look.phase}."
    return True, f"No instance was ready or open before phase Serving ({_format_start_count(facts)}, {polls} polls)."


def check_graphs(facts: HardwareReport) -> Verdict:
    """Check that every planned bucket is warm, and is either captured or reported as skipped."""
    if not facts.starts:
        return None, "No instance started."
    wrong = [start.name for start in facts.starts if not _is_complete(start.report)]
    counts = "; ".join(f"{start.name}: {_format_counts(start.report)}" for start in facts.starts)
    return not wrong, f"{counts}."


def _is_complete(report: WarmupReport) -> bool:
    planned = report.prompt.planned + report.decode.planned
    captured = sum(each.captured if each.capture_applies else each.warmed for each in (report.prompt, report.decode))
    return planned > 0 and captured + report.skipped_total == planned


def _format_counts(report: WarmupReport) -> str:
    left_out = f", {report.skipped_total} left out and reported" if report.skipped_total else ""
    return f"prompt {_format_progress(report.prompt)}, decode {_format_progress(report.decode)}{left_out}"


def _format_progress(progress: PhaseProgress) -> str:
    return f"{progress.captured if progress.capture_applies else progress.warmed}/{progress.planned}"


def check_serving(facts: HardwareReport) -> Verdict:
    """Check that planned traffic uses only warm graphs."""
    return _judge_traffic(facts.traffic) if facts.traffic else (None, "No instance served.")


def _judge_traffic(traffic: TrialTraffic) -> Verdict:
    report = traffic.report
    left_out = {(each.phase, each.bucket) for each in report.skipped}
    cold = [each for each in report.cold_shapes if (each.phase, each.shape) not in left_out]
    hits = report.served.prompt.hits + report.served.decode.hits
    misses = report.served.prompt.misses + report.served.decode.misses
    figures = (
        f"{plural(traffic.requests, 'request')}, {len(traffic.failures)} failed. {plural(hits, 'batch', 'batches')} "
        f"with a graph, {misses} without a graph. {plural(report.recompiles_since_ready, 'recompile')}"
    )
    if cold:
        figures += f". Cold shapes: {', '.join(f'{each.phase} {each.shape}' for each in cold)}"
    warm = not traffic.failures and not cold and not report.recompiles_since_ready and traffic.requests > 0
    return warm and hits > 0, f"{figures}."


def check_compile_times(facts: HardwareReport) -> Verdict:
    """Check that compiles of buckets take longer than the recompilation threshold and helper graphs do not."""
    stages = {each.stage: each for each in facts.traffic.report.served.compile_times} if facts.traffic else {}
    if "warm" not in stages:
        return None, "The bridge has not measured any compile."
    figures = "; ".join(
        f"{each.stage}: {plural(each.recipes, 'recipe')}, {_format_compile_times(each)}" for each in stages.values()
    )
    short = _count_short_compiles(stages["warm"])
    long = sum(stages["serving"].counts) - _count_short_compiles(stages["serving"]) if "serving" in stages else 0
    return not short and not long, f"{figures}. The threshold is {_format_seconds(RECOMPILATION_SECONDS)}."


def _format_compile_times(times: CompileTimes) -> str:
    counted = zip(COMPILE_BOUNDS, times.counts, strict=False)
    found = [f"{count} up to {_format_seconds(bound)}" for bound, count in counted if count]
    longer = sum(times.counts[len(COMPILE_BOUNDS) :])
    return ", ".join([*found, *([f"{longer} longer"] if longer else [])])


def _format_seconds(bound: float) -> str:
    return f"{bound:g} s" if bound >= 1 else f"{bound * 1000:g} ms"


def _count_short_compiles(times: CompileTimes) -> int:
    """Return the number of compiles that take at most the threshold."""
    counted = zip(COMPILE_BOUNDS, times.counts, strict=False)
    return sum(count for bound, count in counted if bound <= RECOMPILATION_SECONDS)


def check_recipes(facts: HardwareReport) -> Verdict:
    """Check that a second start loads the recipes that the first start compiled."""
    if len(facts.starts) < 2:
        return None, "Only one instance started." if facts.starts else "No instance started."
    first, second = facts.starts[:2]
    cached = second.report.prompt.cached + second.report.decode.cached
    if not facts.config.recipe_cache_dir:
        return None, "This configuration has no recipe cache."
    planned = second.report.prompt.planned + second.report.decode.planned
    took = (
        f"Warm-up took {_warmup_seconds(first):.1f} s without recipes and {_warmup_seconds(second):.1f} s with recipes"
    )
    # A bucket that was skipped has no recipe, so count it as complete.
    return cached + second.report.skipped_total >= planned > 0, f"{cached} of {planned} buckets had a recipe. {took}."


def _warmup_seconds(start: InstanceStart) -> float:
    return sum(start.phases.get(each, 0.0) for each in (Phase.COMPILING, Phase.SAMPLER, Phase.CAPTURING))


def check_upgrade(facts: HardwareReport) -> Verdict:
    """Check that no request fails while one instance replaces another."""
    if facts.upgrade is None:
        return None, "No instance was replaced."
    how = "in place" if facts.upgrade.in_place else "side by side"
    warm, figures = _judge_traffic(facts.upgrade.traffic)
    gap = f"Requests waited for {facts.upgrade.seconds_without:.1f} s without an open instance"
    return warm, f"The instance was replaced {how}. {gap}. {figures}"


def check_answers(facts: HardwareReport) -> Verdict:
    """Check that both instances give the same answers to greedy requests."""
    alike = facts.upgrade.answers_alike if facts.upgrade else None
    if alike is None:
        return None, "No second instance gave answers to compare."
    return (
        alike,
        "Both instances give the same greedy answers." if alike else "The instances give different greedy answers.",
    )


def _format_start_count(facts: HardwareReport) -> str:
    return plural(len(facts.starts), "start")


RULES: dict[str, Callable[[HardwareReport], Verdict]] = {
    "machine": check_doctor,
    "names of the plugin": check_plugin_names,
    "gate": check_gate,
    "graphs": check_graphs,
    "no cold shape, no recompile": check_serving,
    "compile times": check_compile_times,
    "recipes": check_recipes,
    "upgrade": check_upgrade,
    "answers": check_answers,
}
