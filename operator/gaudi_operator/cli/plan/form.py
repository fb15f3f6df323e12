"""Forms of a learned plan; apart from the learning itself, which every command would pay for."""

from enum import StrEnum


class Form(StrEnum):
    """How a learned plan stands in a spec: as traffic to plan for, or as the buckets that were chosen."""

    OPTIMAL = "optimal"
    FILE = "file"
