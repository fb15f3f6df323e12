"""Fields that were called otherwise in an earlier release: whoever wrote the former name is read as if it were the new.

A former name stays in the schema for one release (docs/reference/api-policy.md). Nothing but this module and the schema
knows it: it is replaced before a spec is validated, be it one that stands in the cluster or one that a revision was
made from. Fields that became settings are replaced too; the runtime reads them alike
(gaudi_runtime/contract/former.py).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from gaudi_operator.api.base import Rule
from gaudi_runtime.contract.former import FormerField, with_settings


@dataclass(frozen=True)
class Renamed:
    """A field of a section of the spec, its former name, and how a value of then is written now.

    `former_default` stands in every resource that was written when the API server filled it in: beside the new name it
    means nothing.
    """

    section: str
    former: str
    now: str
    converted: Callable[[Any], Any]
    former_default: float

    @property
    def description(self) -> str:
        """What the schema says of the former name."""
        return f"Deprecated: the former name of {self.now}, as a share from 0 to 1. It goes with release 0.3."

    @property
    def rule(self) -> Rule:
        """Both names together would leave open which one counts."""
        return Rule(
            rule=f"!has(self.{self.now}) || !has(self.{self.former}) || self.{self.former} == {self.former_default}",
            message=f"spec.{self.section}.{self.former} is the former name of {self.now}: leave it out",
        )


def whole_percent(share: Any) -> Any:
    """A share from 0 to 1 in percent: 1 to 99 where it is neither nothing nor all. What is no number stays as it is."""
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0 <= share <= 1:
        return share
    percent = round(share * 100)
    return percent if share in (0, 1) else min(99, max(1, percent))


class _Fields(NamedTuple):
    device_memory_utilization: Renamed
    graph_memory_share: Renamed
    prompt_ratio: Renamed


RENAMED = _Fields(
    Renamed("engine", "deviceMemoryUtilization", "deviceMemoryUtilizationPercent", whole_percent, 0.9),
    Renamed("warmup", "graphMemoryShare", "graphMemoryPercent", whole_percent, 0.1),
    Renamed("warmup", "promptRatio", "promptGraphPercent", whole_percent, 0.3),
)


def became_setting(field: FormerField) -> str:
    """What the schema says of it."""
    return f"Deprecated: the former name of engine.settings {field.setting}. It goes with release 0.3."


def not_beside_setting(field: FormerField) -> Rule:
    """A rule of the spec: field and setting together would leave open which one counts."""
    path = field.path.replace(".", ".?")
    said = f"self.?{path}.hasValue()" if field.unsaid is None else f"self.?{path}.orValue(false)"
    return Rule(
        rule=f"!{said} || !has(self.engine.settings) || !('{field.setting}' in self.engine.settings)",
        message=f"spec.{field.path} is the former name of engine.settings {field.setting}: leave it out",
    )


def with_present_names(spec: Any) -> Any:
    """`spec` (sections by name, as they stand on the wire) with each field by its present name; it is not changed.

    Where both names stand the new one counts.
    """
    if not isinstance(spec, Mapping):
        return spec
    result = dict(spec)
    for field in RENAMED:
        section = result.get(field.section)
        if isinstance(section, Mapping) and field.former in section:
            rest = {key: value for key, value in section.items() if key != field.former}
            former = section[field.former]
            result[field.section] = rest if former is None else {field.now: field.converted(former), **rest}
    accelerator = result.get("accelerator")
    if isinstance(accelerator, Mapping) and "cards" in accelerator:  # it could only say what parallelism says
        result["accelerator"] = {key: value for key, value in accelerator.items() if key != "cards"}
    access = result.get("networkAccess")
    if isinstance(access, Mapping) and isinstance(access.get("clients"), list | tuple):
        result["networkAccess"] = {**access, "clients": [_present_client(each) for each in access["clients"]]}
    return with_settings(result)


def _present_client(client: Any) -> Any:
    """Labels of release 0.1.0 as selectors: an entry without those of a namespace meant pods of its own one."""
    if not isinstance(client, Mapping) or not client.keys() & {"podLabels", "namespaceLabels"}:
        return client
    rest = {key: value for key, value in client.items() if key not in ("podLabels", "namespaceLabels")}
    pods, namespaces = client.get("podLabels") or {}, client.get("namespaceLabels") or {}
    peer = {"podSelector": {"matchLabels": pods}}
    return {**peer, **({"namespaceSelector": {"matchLabels": namespaces}} if namespaces else {}), **rest}
