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
    CORRECTED_BATCH,
    DEFRAGMENTER,
    DRAFTS,
    HPU_GRAPHS,
    MANAGER,
    MARGIN,
    PIECES,
    PREPARED,
    RUNNER,
    SAMPLED_BATCH,
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
    "InputBatch": (*BATCH, *CORRECTED_BATCH, *SAMPLED_BATCH),
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
    yield from {entry.name: entry for entry in names}.values()


def _look_up_name(owner: str, entry: PluginName, classes: dict[str, PluginClass]) -> PluginNameCheck:
    lineage = _class_and_bases(owner, classes)
    defining_classes = [plugin_class for plugin_class in lineage if entry.name in plugin_class.methods]
    method = defining_classes[0].methods[entry.name] if defining_classes else None
    is_attribute = any(entry.name in plugin_class.attributes for plugin_class in lineage)
    exists = is_attribute if entry.parameters is None and method is None else method is not None
    return PluginNameCheck(
        owner=owner,
        name=entry.name,
        wanted=entry.parameters,
        found=tuple(node.arg for node in _parameters(method)) if method and entry.parameters is not None else None,
        there=exists,
        fits=exists
        and (entry.parameters is None or (method is not None and _accepts_arguments(method, entry.parameters))),
        needed=entry.loss is None,
    )


def _class_and_bases(owner: str, classes: dict[str, PluginClass]) -> list[PluginClass]:
    """Return the class and its base classes in the plugin, the class itself first."""
    lineage, pending_names = [], [owner]
    while pending_names:
        name = pending_names.pop(0)
        if plugin_class := classes.get(name):
            lineage.append(plugin_class)
            pending_names += plugin_class.bases
    return lineage


def _parameters(signature: ast.arguments) -> list[ast.arg]:
    """Return the parameters of a method without `self`."""
    return [*signature.posonlyargs, *signature.args][1:]


def _accepts_arguments(signature: ast.arguments, arguments: tuple[str, ...]) -> bool:
    """Return whether a call with this number of positional arguments is valid. Parameter names are ignored."""
    max_arguments = len(_parameters(signature))
    min_arguments = max_arguments - len(signature.defaults)
    requires_keywords = any(default is None for default in signature.kw_defaults)
    count = len(arguments)
    return not requires_keywords and min_arguments <= count and (count <= max_arguments or signature.vararg is not None)


def _parse_classes(folder: Path) -> dict[str, PluginClass]:
    classes: dict[str, PluginClass] = {}
    for file in sorted(folder.rglob("*.py")):
        text = file.read_text(errors="replace")
        if any(f"class {name}" in text for name in USED):
            nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
            classes |= {node.name: _parse_class(node) for node in nodes}
    return classes


def _parse_class(node: ast.ClassDef) -> PluginClass:
    plugin_class = PluginClass(bases=tuple(base.id for base in node.bases if isinstance(base, ast.Name)))
    for statement in node.body:
        match statement:
            case ast.FunctionDef():
                plugin_class.methods[statement.name] = statement.args
                plugin_class.attributes |= _self_attributes(statement)
            case ast.Assign(targets=targets):
                plugin_class.attributes |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                plugin_class.attributes.add(name)
    return plugin_class


def _self_attributes(function: ast.FunctionDef) -> set[str]:
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
