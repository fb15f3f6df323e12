"""The reader of bucket files: one tuple per line, never executed (docs/internals/planning.md)."""

import ast
from collections.abc import Iterator
from itertools import product
from math import prod
from typing import NamedTuple

from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.text import safe_excerpt
from gaudi_runtime.errors import PlanImpossible

MAX_ELEMENTS = 10_000
MAX_FILE_BUCKETS = 5000
MAX_LINES = 1000
MAX_LINE = 4096
MAX_VALUE = 16_777_216


class _FileBucket(NamedTuple):
    """A bucket of a bucket file, and its line number, counted from 1."""

    line_number: int
    bucket: Bucket


def read_bucket_file(text: str) -> Iterator[_FileBucket]:
    """Yield the buckets of a bucket file in file order. A query length of 1 makes a decode bucket.

    A line is a tuple of three elements. Each element is an integer, a list of integers, or range(start, stop[, step]).
    The line stands for all combinations of these values. Raises PlanImpossible with the number and the text of a wrong
    line.
    """
    bucket_count = line_count = 0
    for line_number, line in enumerate(text.splitlines(), start=1):
        content = line.split("#", 1)[0].strip()
        if not content:
            continue
        try:
            elements = _parse_line(content)
            line_count += 1
            if line_count > MAX_LINES:
                raise ValueError(f"the file has more than {MAX_LINES} lines with buckets")
            bucket_count += prod(len(element) for element in elements)
            if bucket_count > MAX_FILE_BUCKETS:
                raise ValueError(f"the file has more than {MAX_FILE_BUCKETS} buckets")
        except ValueError as error:
            raise PlanImpossible(f"bucket file, line {line_number}: {error}: {line[:200]!r}") from error
        for batch_size, query_len, blocks in product(*elements):
            yield _FileBucket(line_number, Bucket(batch_size, query_len, blocks))


def _parse_line(content: str) -> list[list[int]]:
    if len(content) > MAX_LINE:
        raise ValueError(f"the line is longer than {MAX_LINE} characters")
    try:
        node = ast.parse(content, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError("the line is not a tuple of three elements") from error
    if not isinstance(node, ast.Tuple) or len(node.elts) != 3:
        raise ValueError("the line is not a tuple of three elements")
    batch_sizes, query_lens, blocks = (_parse_element(element, content) for element in node.elts)
    if min(batch_sizes) < 1 or min(query_lens) < 1:
        raise ValueError("batch size and query length must be at least 1")
    return [batch_sizes, query_lens, blocks]


def _parse_element(node: ast.expr, content: str) -> list[int]:
    match node:
        case ast.List(elts=elements):
            values = [_parse_integer(element, content) for element in elements]
        case ast.Call(func=ast.Name(id="range"), args=arguments, keywords=[]):
            values = _expand_range([_parse_integer(argument, content) for argument in arguments])
        case _:
            values = [_parse_integer(node, content)]
    if not values:
        raise ValueError("an element has no values")
    return values


def _expand_range(arguments: list[int]) -> list[int]:
    if len(arguments) not in (2, 3):
        raise ValueError("range takes start, stop and an optional step")
    if arguments[2:] == [0]:
        raise ValueError("the step of a range must not be 0")
    values = range(*arguments)
    if len(values) > MAX_ELEMENTS:
        raise ValueError(f"a range has {len(values)} elements, but at most {MAX_ELEMENTS} are allowed")
    return list(values)


def _parse_integer(node: ast.expr, content: str) -> int:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            if value > MAX_VALUE:
                raise ValueError(f"{_source_excerpt(node, content)} is above {MAX_VALUE}")
            return value
    raise ValueError(
        f"{_source_excerpt(node, content)} is neither a whole number >= 0, a list of such numbers, nor a range"
    )


def _source_excerpt(node: ast.expr, content: str) -> str:
    # The text is cut from the source line: rendering the syntax tree of a long sum would exceed the interpreter's
    # stack.
    return safe_excerpt(ast.get_source_segment(content, node) or "")
