"""The types of fields in the contract's report: bounded numbers, and texts that are safe to show in terminals."""

from typing import Annotated

from pydantic import AfterValidator, Field

from gaudi_runtime.contract.text import make_one_line

MOST_COUNT = 1_000_000
Count = Annotated[int, Field(ge=0, le=MOST_COUNT)]
"""A number of buckets or events. Larger numbers are reported as MOST_COUNT."""
Large = Annotated[int, Field(ge=0, le=2**60)]
"""A number whose bound is far above the figures of any card. Sums of such numbers fit into 64 bits."""
Bytes = Large
Seconds = Annotated[float, Field(ge=0, le=1e9)]
PaddingRatio = Annotated[float, Field(ge=0, le=1e9)]
"""Padded compute divided by real compute. 1.0 means no padding."""
Shape = tuple[Large, Large, Large]
MOST_TEXT = 2048
Text = Annotated[str, Field(max_length=MOST_TEXT), AfterValidator(lambda text: make_one_line(text)[:MOST_TEXT])]
"""A sentence from an untrusted source, made safe to show in terminals."""
MOST_SHORT = 512
ShortText = Annotated[str, Field(max_length=MOST_SHORT), AfterValidator(lambda text: make_one_line(text)[:MOST_SHORT])]
