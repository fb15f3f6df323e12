"""Bounds on the grammars of requests: JSON schemas, regular expressions, EBNF and structural tags.

vLLM builds each grammar to check a request, and builds the grammar again in the engine. This is native code without a
limit of time or memory, so the bounds are on the source. docs/internals/performance.md has the measured costs.
"""

import json
import re
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

MOST_LEVELS = 64
MOST_CHARACTERS = 128 * 1024
MOST_NESTED_CHARACTERS = 2 * 2**20
"""The most characters times levels: nesting makes each character more expensive. At 64 levels, 32 KiB are left."""
MOST_STATES = 100_000
"""The most states that repeats may need, as `_count_states` estimates them."""
MOST_GROUPS = 2000
"""The most groups of an expression: xgrammar overflows the stack, and ends the process, above 15,000 nested groups."""
MOST_PATTERN_REPEATS = 128
"""The most repeats in a pattern of a schema. With its cache on, as in vLLM, xgrammar 0.2.8 cannot compile more."""
SOURCES = ("json", "regex", "choice", "grammar", "structural_tag", "whitespace_pattern")
"""The fields of vLLM's StructuredOutputsParams that have the source of a grammar."""
REPEAT = re.compile(r"\{\s*(\d+)\s*(?:,\s*(\d*)\s*)?\}")
LARGEST_NUMBER = 10**9


def check_grammar(params: Any) -> None:
    """Raise ValueError if a source in vLLM's StructuredOutputsParams is larger than the bounds."""
    for name in SOURCES:
        source = getattr(params, name, None)
        if source is not None and (reason := why_too_large(source)):
            raise ValueError(f"The grammar of the request (schema, tools, regex or structural tag) {reason}")


def why_too_large(source: Any) -> str | None:
    """Return which bound the source of a grammar exceeds, and what to do, as the end of a sentence; None if none."""
    too_deep = f"is nested more than {MOST_LEVELS} levels. Send a flatter one."
    try:
        document = json.loads(source) if isinstance(source, str) else source
        values = list(_walk(document))
    except ValueError:
        values = [(1, source)]
    except RecursionError:
        return too_deep
    levels = max(level for level, _ in values)
    if levels > MOST_LEVELS:
        return too_deep
    if any(text.count("(") > MOST_GROUPS for _, value in values for text in _patterns(value)):
        return f"has an expression with more than {MOST_GROUPS} groups. Use fewer."
    if any(_largest_repeat(text) > MOST_PATTERN_REPEATS for _, value in values for text in _schema_patterns(value)):
        return (
            f"repeats a part of a pattern more than {MOST_PATTERN_REPEATS} times. Use minLength and maxLength, or "
            f"repeats of at most {MOST_PATTERN_REPEATS}, for example a{{1,128}}a{{0,72}} instead of a{{1,200}}."
        )
    length = len(source if isinstance(source, str) else json.dumps(source))
    if length > MOST_CHARACTERS or length * levels > MOST_NESTED_CHARACTERS:
        return (
            f"has {length} characters in {levels} levels. Send at most {MOST_CHARACTERS} characters, and at most "
            f"{MOST_NESTED_CHARACTERS} characters times levels."
        )
    if sum(_count_states(value) for _, value in values if isinstance(value, dict)) > MOST_STATES:
        return (
            f"needs more than {MOST_STATES} states for its repeats. Use lower numbers in patterns, maxItems and "
            "maxProperties."
        )
    return None


def _walk(document: Any) -> Iterator[tuple[int, Any]]:
    """Yield the levels and the containers of a document, and stop below MOST_LEVELS."""
    pending_values = [(1, document)]
    while pending_values:
        level, value = pending_values.pop()
        yield level, value
        if level <= MOST_LEVELS:
            children: Iterable[Any] = (
                value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
            )
            pending_values += [(level + 1, child) for child in children if isinstance(child, (dict, list))]


def _count_states(schema: dict[str, Any]) -> float:
    """Estimate the states for the repeats of one schema, without its subschemas. 100,000 states take a second."""
    properties = schema.get("properties")
    names = len(properties) if isinstance(properties, dict) else 0
    count = max(_number(schema.get(name)) for name in ("minProperties", "maxProperties"))
    items = max(_number(schema.get(name)) for name in ("minItems", "maxItems"))
    return items + count * (1 + names) + sum(_count_pattern_states(text) for text in _patterns(schema))


def _patterns(source: Any) -> list[str]:
    """Return the regular expressions of one schema, or the text of a source that is not JSON."""
    return [source] if isinstance(source, str) else _schema_patterns(source)


def _schema_patterns(source: Any) -> list[str]:
    if not isinstance(source, dict):
        return []
    names = source.get("patternProperties")
    texts = [source.get("pattern"), *(names if isinstance(names, dict) else ())]
    return [text for text in texts if isinstance(text, str)]


def _count_pattern_states(pattern: str) -> float:
    # In a schema, xgrammar writes out repeats of up to 10,000 and compares all pairs of states. Repeats of a group
    # multiply the repeats inside the group.
    repeats = sorted(max(_number(float(number)) for number in match if number) for match in REPEAT.findall(pattern))
    count = prod(repeats[-2:]) if "){" in pattern and len(repeats) > 1 else 0
    return float((len(pattern) * (sum(repeats) + count)) ** 2 / 5000)


def _largest_repeat(pattern: str) -> float:
    return max((_number(float(number)) for match in REPEAT.findall(pattern) for number in match if number), default=0)


def _number(value: Any) -> float:
    return min(value, LARGEST_NUMBER) if isinstance(value, (int, float)) else 0
