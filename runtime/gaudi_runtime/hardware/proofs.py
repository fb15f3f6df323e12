"""What must be true of a card, judged from the facts of a trial alone. Each rule gives one proof."""

from collections.abc import Callable

from gaudi_runtime.contract.report import (
    COMPILE_BOUNDS,
    RECOMPILATION_SECONDS,
    CompileTimes,
    Phase,
    PhaseProgress,
    WarmupReport,
)
from gaudi_runtime.hardware.report import HardwareReport, Outcome, Proof, Start, Traffic
from gaudi_runtime.units import plural

Verdict = tuple[bool | None, str]
"""True, false, or None for what was not tried; and the figures."""


def judge(facts: HardwareReport) -> tuple[Proof, ...]:
    """All proofs, in the order of the trial."""
    return tuple(_proof(name, rule(facts)) for name, rule in RULES.items())


def _proof(name: str, verdict: Verdict) -> Proof:
    proven, evidence = verdict
    outcome = Outcome.NOT_TRIED if proven is None else Outcome.PROVEN if proven else Outcome.DISPROVEN
    return Proof(name=name, outcome=outcome, evidence=evidence)


def names(facts: HardwareReport) -> Verdict:
    """The plugin has what the adapter uses."""
    if not facts.names:
        return None, "vLLM's plugin for cards is not installed."
    wrong = [f"{each.owner}.{each.name}" for each in facts.names if not each.fits]
    needed = [f"{each.owner}.{each.name}" for each in facts.names if each.needed and not each.fits]
    counted = f"{len(facts.names) - len(wrong)} of {len(facts.names)} names that are used fit"
    differing = f"; not {', '.join(wrong)}" if wrong else ""
    return not needed, f"{counted}{differing}."


def machine(facts: HardwareReport) -> Verdict:
    """The doctor finds all that is needed."""
    failed = [f"{each.topic}: {each.found}" for each in facts.doctor if each.state == "fail"]
    return not failed, "; ".join(failed) or f"{plural(len(facts.doctor), 'row')}, none fails."


def gate(facts: HardwareReport) -> Verdict:
    """No traffic before all graphs are there."""
    if not facts.starts:
        return None, "Nothing started."
    early = [(start, look) for start in facts.starts for look in start.early]
    looks = sum(start.looks for start in facts.starts)
    if early:
        start, look = early[0]
        what = "ready" if look.ready else "open"
        return False, f"{start.name} was {what} {look.seconds:.1f} s after its start, in phase {look.phase}."
    return True, f"{looks} looks at probe and model port: closed until Serving in each of {_starts(facts)}."


def graphs(facts: HardwareReport) -> Verdict:
    """Every planned bucket is warm, and captured or said to be left out."""
    if not facts.starts:
        return None, "Nothing started."
    wrong = [start.name for start in facts.starts if not _complete(start.report)]
    counts = "; ".join(f"{start.name}: {_counts(start.report)}" for start in facts.starts)
    return not wrong, f"{counts}."


def _complete(report: WarmupReport) -> bool:
    planned = report.prompt.planned + report.decode.planned
    captured = sum(each.captured if each.capture_applies else each.warmed for each in (report.prompt, report.decode))
    return planned > 0 and captured + report.skipped_total == planned


def _counts(report: WarmupReport) -> str:
    left_out = f", {report.skipped_total} left out and said" if report.skipped_total else ""
    return f"prompt {_of(report.prompt)}, decode {_of(report.decode)}{left_out}"


def _of(progress: PhaseProgress) -> str:
    return f"{progress.captured if progress.capture_applies else progress.warmed}/{progress.planned}"


def serving(facts: HardwareReport) -> Verdict:
    """Planned traffic meets warm graphs only."""
    return _warm(facts.traffic) if facts.traffic else (None, "Nothing served.")


def _warm(traffic: Traffic) -> Verdict:
    report = traffic.report
    left_out = {(each.phase, each.bucket) for each in report.skipped}
    cold = [each for each in report.cold_shapes if (each.phase, each.shape) not in left_out]
    hits = report.served.prompt.hits + report.served.decode.hits
    misses = report.served.prompt.misses + report.served.decode.misses
    figures = (
        f"{plural(traffic.requests, 'request')}, {len(traffic.failures)} failed; {plural(hits, 'batch', 'batches')} "
        f"ran from a graph and {misses} without; {plural(report.recompiles_since_ready, 'recompile')}"
    )
    if cold:
        figures += f"; cold: {', '.join(f'{each.phase} {each.shape}' for each in cold)}"
    warm = not traffic.failures and not cold and not report.recompiles_since_ready and traffic.requests > 0
    return warm and hits > 0, f"{figures}."


def compiles(facts: HardwareReport) -> Verdict:
    """Compiles of buckets take longer than the threshold of a recompilation, those of helper graphs do not."""
    stages = {each.stage: each for each in facts.traffic.report.served.compile_times} if facts.traffic else {}
    if "warm" not in stages:
        return None, "The bridge has measured no compile."
    figures = "; ".join(f"{each.stage}: {plural(each.recipes, 'recipe')}, {_times(each)}" for each in stages.values())
    short = _short(stages["warm"])
    long = sum(stages["serving"].counts) - _short(stages["serving"]) if "serving" in stages else 0
    return not short and not long, f"{figures}. The threshold is {_seconds(RECOMPILATION_SECONDS)}."


def _times(times: CompileTimes) -> str:
    counted = zip(COMPILE_BOUNDS, times.counts, strict=False)
    found = [f"{count} up to {_seconds(bound)}" for bound, count in counted if count]
    longer = sum(times.counts[len(COMPILE_BOUNDS) :])
    return ", ".join([*found, *([f"{longer} longer"] if longer else [])])


def _seconds(bound: float) -> str:
    return f"{bound:g} s" if bound >= 1 else f"{bound * 1000:g} ms"


def _short(times: CompileTimes) -> int:
    """Compiles up to the threshold."""
    counted = zip(COMPILE_BOUNDS, times.counts, strict=False)
    return sum(count for bound, count in counted if bound <= RECOMPILATION_SECONDS)


def recipes(facts: HardwareReport) -> Verdict:
    """A second start takes what the first has compiled."""
    if len(facts.starts) < 2:
        return None, "Only one start." if facts.starts else "Nothing started."
    first, second = facts.starts[:2]
    cached = second.report.prompt.cached + second.report.decode.cached
    if not facts.config.recipe_cache_dir:
        return None, "This configuration keeps no recipes."
    planned = second.report.prompt.planned + second.report.decode.planned
    took = f"warm-up took {_warmup(first):.1f} s without recipes and {_warmup(second):.1f} s with them"
    # A bucket that was left out has none.
    return cached + second.report.skipped_total >= planned > 0, f"{cached} of {planned} buckets had theirs: {took}."


def _warmup(start: Start) -> float:
    return sum(start.phases.get(each, 0.0) for each in (Phase.COMPILING, Phase.SAMPLER, Phase.CAPTURING))


def upgrade(facts: HardwareReport) -> Verdict:
    """One instance takes the place of another and no request fails."""
    if facts.upgrade is None:
        return None, "Nothing was replaced."
    how = "in place" if facts.upgrade.in_place else "side by side"
    warm, figures = _warm(facts.upgrade.traffic)
    gap = f"none open for {facts.upgrade.seconds_without:.1f} s, while requests waited"
    return warm, f"{how}, {gap}. {figures}"


def answers(facts: HardwareReport) -> Verdict:
    """Two instances answer alike."""
    alike = facts.upgrade.answers_alike if facts.upgrade else None
    if alike is None:
        return None, "There were no two instances to ask."
    return alike, "Both answer the same greedy requests alike." if alike else "They answer greedy requests differently."


def _starts(facts: HardwareReport) -> str:
    return plural(len(facts.starts), "start")


RULES: dict[str, Callable[[HardwareReport], Verdict]] = {
    "machine": machine,
    "names of the plugin": names,
    "gate": gate,
    "graphs": graphs,
    "no cold shape, no recompile": serving,
    "compile times": compiles,
    "recipes": recipes,
    "upgrade": upgrade,
    "answers": answers,
}
