"""Text forms that several decisions share.

JSON with one text per value, the base of every hash that names or compares an object; moments as Kubernetes writes
them; Kubernetes quantities as exact numbers, so that "1Gi" and "1024Mi" are the same amount; and counts against
thresholds and as percentages (docs/internals/warmup.md, Percentages).
"""

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any

from gaudi_operator.api.v1alpha1.warmup import Readiness
from gaudi_runtime.contract.report import (
    BucketPhase,
    Phase,
    PhaseProgress,
    VisionProgress,
    WarmupReport,
    meets,
    percent,
)


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no blanks: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def short_hash(value: Any, digits: int = 10) -> str:
    """The first hex digits of the SHA-256 of a JSON value; fit for names and labels."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:digits]


def digests(data: Any) -> dict[str, str]:
    """The content of a ConfigMap with the SHA-256 of each text in its place: what is kept and compared of it."""
    found = data if isinstance(data, Mapping) else {}
    return {name: hashlib.sha256(str(text).encode("utf-8", "replace")).hexdigest() for name, text in found.items()}


def sentence(text: str) -> str:
    """Words of somebody else on one line, cut to 600 characters, with a full stop."""
    text = " ".join(text.split())[:600]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def timestamp(moment: datetime) -> str:
    """A moment as Kubernetes writes it: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_moment(text: object) -> datetime | None:
    """The moment that a text of the cluster says; None where there is none, or none to reckon with.

    The API server keeps years from 0 to 10,000 and, in the status of our resource, times without a zone.
    """
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    # Years at both ends would overflow the sums that deadlines make of them.
    return found if found and found.tzinfo and 1 < found.year < 9999 else None


_FORM = re.compile(r"^([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$")
_WHOLE = re.compile(r"-?[0-9]{1,10}")
_SCALES: dict[str | None, Fraction] = {
    None: Fraction(1),
    **{unit: Fraction(1, 1000**power) for power, unit in enumerate("mun", start=1)},
    **{unit: Fraction(1000**power) for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", start=1)},
}


def parse_quantity(text: str) -> Fraction:
    """The amount in units (bytes, cores, pieces). ValueError when `text` is no quantity."""
    match = _FORM.match(text)
    if match is None:
        raise ValueError(f"{text!r} is no quantity such as 500m, 4 or 64Gi")
    return Fraction(match[1]) * _SCALES[match[2]]


def whole_number(text: object) -> int | None:
    """A number of 32 bits as an annotation or a label holds it; None for all else that somebody may write there."""
    number = int(text) if isinstance(text, str) and _WHOLE.fullmatch(text) else None
    return number if number is not None and -(2**31) <= number < 2**31 else None


def at_least(size: int) -> str:
    """The least memory quantity of at most four digits that holds `size` bytes: 3805, 16Ki, 1024Mi."""
    unit = next(unit for unit in (None, "Ki", "Mi", "Gi", "Ti", "Pi", "Ei") if size <= 9999 * _SCALES[unit])
    return f"{ceil(size / _SCALES[unit])}{unit or ''}"


MOST_MEMORY = 2**60
"""Bytes of any device, and so KV blocks of any device."""


# A decision reads the same few a dozen times. Those of a spec are short: the schema bounds them.
@lru_cache(maxsize=1024)
def whole_bytes(text: str) -> int:
    """Bytes of a memory quantity, rounded down. ValueError when `text` is no quantity."""
    return int(parse_quantity(text))


DONE = frozenset({Phase.SERVING, Phase.DRAINING})
_MAX_REASON = 300


def captured_percent(progress: PhaseProgress) -> int | None:
    """Captured graphs in percent of the plan, floored; None for a phase that is empty or has no graphs."""
    return percent(progress.captured, progress.planned) if progress.capture_applies else None


def warmup_percent(report: WarmupReport) -> int:
    """Warm-up done in percent of all buckets compiled and captured, floored; 100 only once it is over."""
    if report.phase in DONE:
        return 100
    phases, vision = (report.prompt, report.decode), report.vision or VisionProgress()
    total = vision.planned + sum(each.planned * (2 if each.capture_applies else 1) for each in phases)
    done = vision.warmed + sum(each.warmed + each.captured * each.capture_applies for each in phases)
    # Profiling and loading may still follow: 100 says that nothing does.
    return min(99, done * 100 // total) if total else 0


def shortfalls(report: WarmupReport, readiness: Readiness) -> tuple[str, ...]:
    """A clause for each phase below its threshold; counts are compared, so rounding never opens a gate."""
    return tuple(clause for _, clause in _short(report, readiness))


def first_left_out(report: WarmupReport, readiness: Readiness) -> tuple[str, ...]:
    """A sentence for each phase below its threshold: the first bucket that was left out, and why."""
    left = {each.phase.value: (str(each.bucket), each.reason) for each in reversed(report.skipped)}
    if report.vision and report.vision.skipped:
        first = report.vision.skipped[0]
        left[_VISION] = f"({first.bucket})", first.reason
    return tuple(
        f"{kind.capitalize()} bucket {left[kind][0]} was the first to be left out: "
        f"{left[kind][1][:_MAX_REASON].rstrip('.')}."
        for kind, _ in _short(report, readiness)
        if kind in left
    )


_VISION = "vision"


def _short(report: WarmupReport, readiness: Readiness) -> tuple[tuple[str, str], ...]:
    if report.warmup_skipped:
        return ()
    phases = (
        (BucketPhase.PROMPT, report.prompt, readiness.min_captured_prompt_percent),
        (BucketPhase.DECODE, report.decode, readiness.min_captured_decode_percent),
    )
    found = [(phase.value, _shortfall(phase, progress, least)) for phase, progress, least in phases]
    found.append((_VISION, _vision_shortfall(report.vision, readiness.min_warmed_vision_percent)))
    return tuple((kind, clause) for kind, clause in found if clause)


def _vision_shortfall(vision: VisionProgress | None, least: int) -> str | None:
    if vision is None or meets(vision.warmed, vision.planned, least) is not False:
        return None
    floored = percent(vision.warmed, vision.planned)
    return f"{vision.warmed} of {vision.planned} vision buckets ({floored} %) are warmed, {least} % are asked for"


def _shortfall(phase: BucketPhase, progress: PhaseProgress, least: int) -> str | None:
    planned = progress.planned
    if planned == 0 or not progress.capture_applies:
        if progress.warmed >= planned:
            return None
        return f"{progress.warmed} of {planned} {phase} buckets are warmed, and without graphs all must be"
    if meets(progress.captured, planned, least):
        return None
    floored = percent(progress.captured, planned)
    return f"{progress.captured} of {planned} {phase} graphs ({floored} %) are captured, {least} % are asked for"


ADD_SIZES = (
    "They are sizes of images, which the log of the pod names: say them in VLLM_MULTIMODAL_RESOLUTIONS in "
    "spec.engine.settings."
)


def only_images_cold(report: WarmupReport) -> bool:
    """Whether requests waited for the vision tower, and no batch of tokens was cold: no bucket would change that."""
    return bool(report.served.vision and report.served.vision.recompiles and not report.cold_shapes)


def counts(report: WarmupReport) -> str:
    """The clause that an opened gate carries."""
    if report.warmup_skipped:
        return "warm-up is switched off"
    found = [_count(BucketPhase.PROMPT, report.prompt), _count(BucketPhase.DECODE, report.decode)]
    if report.vision:
        found.append(f"{report.vision.warmed} of {report.vision.planned} vision buckets warmed")
    return " and ".join(found)


def _count(phase: BucketPhase, progress: PhaseProgress) -> str:
    if progress.planned and progress.capture_applies:
        return f"{progress.captured} of {progress.planned} {phase} graphs captured"
    return f"{progress.warmed} of {progress.planned} {phase} buckets warmed"
