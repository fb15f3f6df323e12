"""Settings that are right and have no effect: one sentence each (docs/knobs.md, Warnings).

What the bucket strategies ignore of their ranges, buckets/policy.py says.
"""

from collections.abc import Iterator

from gaudi_runtime.contract.config import RuntimeConfig
from gaudi_runtime.knobs.knob import ENGINE, Home, Knob, Reader
from gaudi_runtime.knobs.needs import unmet_need
from gaudi_runtime.knobs.render import readers
from gaudi_runtime.knobs.table import knobs

_ELSEWHERE = {
    Reader.LAUNCHER: "only the launcher of the ready-made image reads it, and this project starts the engine itself",
    Reader.BENCHMARK: "only the benchmark container reads it",
    Reader.INSTALLATION: "it is read when the engine is installed",
}


def ignored_knobs(config: RuntimeConfig) -> Iterator[str]:
    """A sentence, without a final stop, for every entry of engine.settings and every optional field without effect.

    Wrong settings are none of this module's business: it passes over them.
    """
    for name in sorted(config.engine.settings):
        knob = knobs().get(name)
        if knob is not None and knob.home is Home.SETTINGS:
            why = _elsewhere(knob) or _unread(knob, config) or _unmet(knob, config)
            if why:
                yield f"engine.settings {name} is ignored{why}"
    yield from _ignored_fields(config)


def _elsewhere(knob: Knob) -> str | None:
    if knob.reader is None or knob.reader in ENGINE:
        return None
    instead = f"; use {knob.use[0]} instead" if knob.use else ""
    return f": {_ELSEWHERE[knob.reader]}{instead}"


def _unread(knob: Knob, config: RuntimeConfig) -> str | None:
    engine = config.engine
    return None if knob.reader in readers(engine) else f" by the {engine.name} engine on device {engine.device}"


def _unmet(knob: Knob, config: RuntimeConfig) -> str | None:
    who = unmet_need(knob, config)
    return None if who is None else f" by {who}"


def _ignored_fields(config: RuntimeConfig) -> Iterator[str]:
    """Optional fields of one knob that people have set although the mode or the device does not read it."""
    said = config.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    for knob in knobs().values():
        if knob.home is not Home.FIELD or not knob.needs.keys() & {"mode", "device"} or len(knob.use) > 1:
            continue
        why = _unmet(knob, config)
        if why and _value(said, knob.use[0]) is not None:
            yield f"{knob.use[0]} is ignored{why}"


def _value(document: object, path: str) -> object:
    for part in path.split("."):
        document = document.get(part) if isinstance(document, dict) else None
    return document
