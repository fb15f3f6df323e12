"""Readers of objects from the API server, one object at a time. Foreign objects are reduced to their names.

Any user who may create objects in a namespace can set the operator's label and 1.5 MiB of content, which takes 60 MiB
in memory. Therefore lists are read object by object, like watches, and each object is stored before the next object is
read. An object is reduced to its name if no GaudiInference owns it, or if it is larger than any object that the
operator writes. The store limits the objects of one resource (memory_shares.py).
"""

import codecs
import gc
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from gaudi_operator.api.v1alpha1.resource import GROUP
from gaudi_operator.api.v1alpha1.resource import KIND as RESOURCE_KIND
from gaudi_operator.core.observed import Manifest
from gaudi_operator.shell.kinds import CLASS, CONFIG_MAP, POD, PVC, RESOURCE, STATEFUL_SET, Kind
from gaudi_operator.shell.watching.memory_shares import OBJECT_BYTES, memory_weight

_AFTER_A_VALUE = frozenset(",:]} \n\r\t")

_OWNERS = {POD: ("ReplicaSet", "StatefulSet"), STATEFUL_SET: ("LeaderWorkerSet", "Pod")}
"""The kinds of controllers by the kind of object. The controller of all other kinds is a GaudiInference."""


log = logging.getLogger(__name__)


def reduce_incoming_object(kind: Kind, manifest: Manifest) -> Manifest:
    """Return an incoming object. If the object is foreign to the operator or too large, return only its name."""
    # Return GaudiInferences and classes unchanged. The schema of a class limits its size, and the store drops the
    # blocks of a GaudiInference that are too large (core/inference.py).
    if kind in (RESOURCE, CLASS):
        return manifest
    if not _is_owned(kind, manifest):
        return _strip_to_names(manifest)
    # Do not count the data of a ConfigMap, because the operator stores only hashes of the data.
    content = {name: value for name, value in manifest.items() if name != "data"} if kind is CONFIG_MAP else manifest
    if memory_weight(content) > OBJECT_BYTES:
        metadata = manifest["metadata"]
        log.warning(
            "%s %s is larger than any object that the operator writes, so its content is ignored.",
            kind.kind,
            metadata.get("name"),
        )
        return _strip_to_names(manifest)
    return manifest


def _is_owned(kind: Kind, manifest: Manifest) -> bool:
    owners = manifest["metadata"].get("ownerReferences") or ()
    controller = next((owner for owner in owners if owner.get("controller")), None)
    if controller is None:
        return kind is PVC  # a PVC may have outlived its resource
    is_resource = controller.get("kind") == RESOURCE_KIND and str(controller.get("apiVersion")).startswith(f"{GROUP}/")
    return controller.get("kind") in _OWNERS[kind] if kind in _OWNERS else is_resource


def _strip_to_names(manifest: Manifest) -> Manifest:
    metadata = manifest["metadata"]
    names = {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion") if name in metadata}
    return {**{name: manifest[name] for name in ("apiVersion", "kind") if name in manifest}, "metadata": names}


class IncomingListReader:
    """A streaming reader of a Kubernetes list in JSON. The fields of the list may be in any order."""

    def __init__(self, chunks: AsyncIterator[bytes], convert: Callable[[Manifest], Any]) -> None:
        """Create a reader. It immediately replaces each object of the list by the result of `convert`."""
        self._chunks, self._convert = chunks, convert
        self._text, self._position, self._ended = "", 0, False
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._read = json.JSONDecoder().raw_decode

    async def read(self) -> dict[str, Any]:
        """Return the list with the results of `convert` as objects. Raises ValueError if the text is no JSON object."""
        fields: dict[str, Any] = {}
        await self._skip("{")
        while await self._peek() != "}":
            name = await self._read_value()
            await self._skip(":")
            is_items = name == "items" and await self._peek() == "["
            fields[str(name)] = await self._read_items() if is_items else await self._read_value()
            if await self._peek() == ",":
                await self._skip(",")
        return fields

    async def _read_items(self) -> list[Any]:
        items = list[Any]()
        await self._skip("[")
        while await self._peek() != "]":
            items.append(self._convert(await self._read_value()))
            if await self._peek() == ",":
                await self._skip(",")
        await self._skip("]")
        return items

    async def _read_value(self) -> Any:
        await self._peek()
        while True:
            gc.disable()  # repeated collections during the parsing would take three quarters of the time
            try:
                value, end = self._read(self._text, self._position)
            except ValueError:
                if self._ended:
                    raise
            else:
                # Do not accept a number at the end of a chunk, because the number may continue in the next chunk: `0.`
                # would be read as 0.
                if self._ended or self._text[end : end + 1] in _AFTER_A_VALUE:
                    self._position = end
                    return value
            finally:
                gc.enable()
            # Read until the text is twice as long. Otherwise a large object would be parsed once per chunk.
            min_length = 2 * (len(self._text) - self._position)
            while not self._ended and len(self._text) - self._position < min_length:
                await self._read_chunk()

    async def _peek(self) -> str:
        """Return the next character that is not whitespace, without consuming it."""
        while True:
            while self._position < len(self._text) and self._text[self._position].isspace():
                self._position += 1
            if self._position < len(self._text):
                return self._text[self._position]
            if self._ended:
                raise ValueError("the list is incomplete")
            await self._read_chunk()

    async def _skip(self, character: str) -> None:
        if await self._peek() != character:
            raise ValueError(f"{character} is missing in the list")
        self._position += 1

    async def _read_chunk(self) -> None:
        # Drop the text that is already parsed.
        self._text, self._position = self._text[self._position :], 0
        try:
            chunk = await anext(self._chunks)
        except StopAsyncIteration:
            self._text, self._ended = self._text + self._decode(b"", final=True), True
        else:
            self._text += self._decode(chunk)
