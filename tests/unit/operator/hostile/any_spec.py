"""Random specs of any size and shape that the CRD's schema accepts.

The generator does not use hypothesis, because hypothesis limits an example to a few KiB of choices and harmful specs
are larger. Each spec is a corpus entry with some fields replaced, because a completely random spec nearly always breaks
a rule between two fields. Replaced values are at the bounds of their schema as often as within them.
"""

import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from gaudi_operator.api.crd import inference_crd_schema
from tests.support.builders import copied
from tests.unit.operator.core.resources import resource
from tests.unit.operator.hostile.specs import ACCEPTED, REFUSED

Schema = dict[str, Any]
Path = tuple[str, ...]

MOST_CHARACTERS = 900_000
"""The maximum size of one spec. etcd refuses objects above 1.5 MiB."""

_SCHEMA: Schema = inference_crd_schema()["properties"]["spec"]
_CORPUS = [resource(**each)["spec"] for each in ({}, *ACCEPTED.values(), *(spec for spec, _ in REFUSED.values()))]
_WORDS = ("a", "1", "A_B", "a-b", "a.b/c", "/a/b", "--a", "https://a.b/c", "1Gi", "true", "\U0001f600", "%s{}\n", "")
_QUANTITIES = (0, 1, "1", "4Ki", "1Gi", "64Gi", "1Ei", "9E", "100m", "1e9", 2**53)


class Generator:
    """A generator of random specs. The same seed gives the same specs."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self._left = 0

    def spec(self) -> dict[str, Any]:
        """Return the next spec."""
        self._left = MOST_CHARACTERS
        spec = copied(self._random.choice(_CORPUS))
        for path in self._random.sample(_PATHS, self._random.choice((1, 1, 2, 3, 5, 12))):
            self._replace(spec, path)
        return spec

    def _replace(self, spec: dict[str, Any], path: Path) -> None:
        schema, target = _SCHEMA, spec
        for name in path[:-1]:
            schema = schema["properties"][name]
            # If a section is missing or None, create the section with its required fields.
            if not isinstance(target.get(name), dict):
                target[name] = self._object(schema, required_only=True)
            target = target[name]
        target[path[-1]] = self._value(schema["properties"][path[-1]], path[-1])

    def _value(self, schema: Schema, name: str) -> Any:
        if self._left <= 0:
            return schema.get("default", self._least(schema))
        if "enum" in schema:
            return self._random.choice(schema["enum"])
        if schema.get("x-kubernetes-int-or-string"):
            return self._random.choice(_QUANTITIES)
        kinds: dict[str, Callable[[], Any]] = {
            "integer": lambda: self._integer(schema),
            "number": lambda: float(self._integer(schema)),
            "boolean": lambda: self._random.random() < 0.5,
            "string": lambda: self._text(schema, name),
            "array": lambda: [self._value(schema["items"], name) for _ in range(self._count(schema, "Items"))],
            "object": lambda: self._object(schema),
        }
        return kinds[schema["type"]]()

    def _least(self, schema: Schema) -> Any:
        return {"array": [], "object": {}, "string": "a", "boolean": False}.get(schema.get("type", ""), 1)

    def _integer(self, schema: Schema) -> int:
        least, most = schema.get("minimum", 0), schema.get("maximum", 2**31 - 1)
        between = round(least + (most - least) ** self._random.random()) if most > least else least
        return int(self._random.choice((least, most, between, min(most, least + 1), max(least, most - 1))))

    def _count(self, schema: Schema, of: str) -> int:
        least, most = schema.get(f"min{of}", 0), schema.get(f"max{of}", 64)
        return int(self._random.choice((least, min(most, least + 1), min(most, least + 2), most)))

    def _text(self, schema: Schema, name: str) -> str:
        most, pattern = schema.get("maxLength", 256), schema.get("pattern")
        if name in ("file", "traffic"):
            made = self._lines(name, min(most, self._left))
        else:
            word = self._random.choice(_WORDS)
            made = (word * most)[:most] if self._random.random() < 0.3 else word[:most]
            if pattern and not re.search(pattern, made):
                made = next((each for each in _WORDS if re.search(pattern, each)), "a")
        self._left -= len(made)
        return made

    def _lines(self, name: str, most: int) -> str:
        """Return a bucket file or a traffic file, usually of the maximum length."""
        lines, length, scale = list[str](), 0, self._random.choice((8, 300, 5_000, 70_000))
        most = self._random.choice((200, most, most))
        while length < most - 60:
            numbers = [self._random.randint(1, scale) for _ in range(3)]
            if name == "traffic":
                line = f"{self._random.choice(('prompt', 'decode'))} {numbers[0]} {numbers[1]} {numbers[2]} 1"
            else:
                line = f"({', '.join(map(self._element, numbers))})"
            lines.append(line)
            length += len(line) + 1
        return "\n".join(lines)

    def _element(self, number: int) -> str:
        return self._random.choice((str(number), str(number), "1", f"range(1,{number + 1})", f"[1,{number}]"))

    def _object(self, schema: Schema, *, required_only: bool = False) -> dict[str, Any]:
        known, required = schema.get("properties", {}), schema.get("required", ())
        share = 0.0 if required_only else self._random.choice((0.1, 0.5, 1.0))
        chosen = [name for name in known if name in required or self._random.random() < share]
        made = {name: self._value(known[name], name) for name in chosen}
        if isinstance(more := schema.get("additionalProperties"), dict):
            made |= {f"a{number}": self._value(more, "") for number in range(self._count(schema, "Properties"))}
        return made


def _paths(schema: Schema, above: Path = ()) -> Iterator[Path]:
    for name, each in schema.get("properties", {}).items():
        yield (*above, name)
        yield from _paths(each, (*above, name))


_PATHS = list(_paths(_SCHEMA))
