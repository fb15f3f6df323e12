"""Which prompts are padded to a bucket that no prompt of the model's length fills."""

from collections.abc import Sequence

Shape = tuple[int, ...]
"""Batch size, query tokens, context blocks."""


def smallest_prompt(shape: Shape, known: Sequence[Shape], block: int, longest: int) -> tuple[int, int] | None:
    """Return new and computed tokens of the smallest prompts of which a batch is padded to the bucket `shape`.

    `known` has all prompt buckets in plan order, `block` is in tokens, and a prompt has at most `longest` tokens. None
    if every prompt is padded to an earlier bucket (docs/internals/bucketing.md, Finding a bucket).
    """
    size, query, blocks = shape
    earlier = [each for each in known if tuple(each) < tuple(shape) and each[0] >= size]
    # A token more than the queries of some earlier buckets, and a block more than the contexts of all the others.
    for shorter in sorted({0, *(each[1] for each in earlier if each[1] < query)}):
        held = max((each[2] for each in earlier if each[1] > shorter), default=-1)
        computed = held * block + 1 if held >= 0 else 0
        if held < blocks and shorter + 1 + computed <= longest:
            return shorter + 1, computed
    return None
