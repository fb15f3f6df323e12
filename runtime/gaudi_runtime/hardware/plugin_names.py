"""The used names of vLLM's plugin, looked up in the source of the installed plugin without importing it.

A missing or changed name is thus reported before it would let a start fail.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from gaudi_runtime.engines.vllm.workers.capabilities import (
    BATCH,
    DEFRAGMENTER,
    DRAFTS,
    HPU_GRAPHS,
    MANAGER,
    MARGIN,
    PIECES,
    PREPARED,
    RUNNER,
    SEEDS,
    SETUP,
    TOWER,
    VISION,
    VISION_BUCKETS,
    PluginName,
)
from gaudi_runtime.hardware.report import PluginNameCheck

USED = {
    "HPUModelRunner": (*SETUP, *RUNNER, *MARGIN, *HPU_GRAPHS, *PIECES, *PREPARED, *DRAFTS, *VISION),
    "HpuModelAdapter": TOWER,
    "HPUBucketingManager": (*MANAGER, *SEEDS),
    "HPUVisionBucketManager": VISION_BUCKETS,
    "InputBatch": BATCH,
    "OnlineDefragmenter": DEFRAGMENTER,
}
"""The names that this runtime uses, by class of the plugin."""


@dataclass
class PluginClass:
    """A class in the plugin's source: methods with parameters, attributes that the methods set, and base classes."""

    methods: dict[str, ast.arguments] = field(default_factory=dict)
    attributes: set[str] = field(default_factory=set)
    bases: tuple[str, ...] = ()


def plugin_folder() -> Path | None:
    """Return the folder of the installed vLLM plugin; None if the plugin is not installed."""
    spec = find_spec("vllm_gaudi")
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def look_up_names(folder: Path) -> list[PluginNameCheck]:
    """Look up each plugin name that this runtime uses in the source below `folder`."""
    classes = _parse_classes(folder)
    return [_look_up_name(owner, name, classes) for owner, names in USED.items() for name in _unique_names(names)]


def _unique_names(names: Iterable[PluginName]) -> Iterator[PluginName]:
    yield from {each.name: each for each in names}.values()


def _look_up_name(owner: str, wanted: PluginName, classes: dict[str, PluginClass]) -> PluginNameCheck:
    line = [each for each in _class_and_bases(owner, classes) if wanted.name in each.methods]
    method = line[0].methods[wanted.name] if line else None
    attribute = any(wanted.name in each.attributes for each in _class_and_bases(owner, classes))
    there = attribute if wanted.parameters is None and method is None else method is not None
    return PluginNameCheck(
        owner=owner,
        name=wanted.name,
        wanted=wanted.parameters,
        found=tuple(each.arg for each in _parameters(method)) if method and wanted.parameters is not None else None,
        there=there,
        fits=there
        and (wanted.parameters is None or (method is not None and _accepts_arguments(method, wanted.parameters))),
        needed=wanted.loss is None,
    )


def _class_and_bases(owner: str, classes: dict[str, PluginClass]) -> list[PluginClass]:
    """Return the class and its base classes in the plugin, the class itself first."""
    line, names = [], [owner]
    while names:
        name = names.pop(0)
        if found := classes.get(name):
            line.append(found)
            names += found.bases
    return line


def _parameters(method: ast.arguments) -> list[ast.arg]:
    """Return the parameters of a method without `self`."""
    return [*method.posonlyargs, *method.args][1:]


def _accepts_arguments(method: ast.arguments, passed: tuple[str, ...]) -> bool:
    """Return whether a call with this number of positional arguments is valid. Parameter names are ignored."""
    most = len(_parameters(method))
    least = most - len(method.defaults)
    named = any(default is None for default in method.kw_defaults)
    return not named and least <= len(passed) and (len(passed) <= most or method.vararg is not None)


def _parse_classes(folder: Path) -> dict[str, PluginClass]:
    found: dict[str, PluginClass] = {}
    for file in sorted(folder.rglob("*.py")):
        text = file.read_text(errors="replace")
        if any(f"class {name}" in text for name in USED):
            nodes = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.ClassDef)]
            found |= {each.name: _parse_class(each) for each in nodes}
    return found


def _parse_class(node: ast.ClassDef) -> PluginClass:
    made = PluginClass(bases=tuple(each.id for each in node.bases if isinstance(each, ast.Name)))
    for each in node.body:
        match each:
            case ast.FunctionDef():
                made.methods[each.name] = each.args
                made.attributes |= _self_attributes(each)
            case ast.Assign(targets=targets):
                made.attributes |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                made.attributes.add(name)
    return made


def _self_attributes(function: ast.FunctionDef) -> set[str]:
    return {
        each.attr
        for each in ast.walk(function)
        if isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Store)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
    }
