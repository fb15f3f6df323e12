"""Specs at the bounds of the schema, each with the maximum work or memory of its kind."""

import random
from typing import Any

Spec = dict[str, Any]

LARGEST = {
    "name": "vllm",
    "blockSize": 1,
    "maxNumSeqs": 65_536,
    "maxNumPrefillSeqs": 5_000,
    "maxNumBatchedTokens": 16_777_216,
    "prefixCaching": True,
    # Without this setting, the operator refuses buckets of this size, because a card would compute NaN for them.
    "settings": {"VLLM_HPU_FSDPA_Q_TILE_ENABLE": "true"},
}
SPLIT = {"VLLM_HPU_FSDPA_Q_TILE_ENABLE": "true", "VLLM_CONTIGUOUS_PA": "false"}
"""Settings without contiguous paged attention."""


def spec(bucketing: Spec, model: Spec | None = None, readiness: Spec | None = None, **engine: Any) -> Spec:
    """Return overrides for a resource with a card and the largest limits, unless `engine` overrides them."""
    return {
        "model": {"maxModelLen": 4_194_304, **(model or {})},
        "accelerator": {"generation": "gaudi2", "deviceMemory": None},
        "engine": {**LARGEST, **engine},
        "bucketing": {**bucketing, "gaps": "Allow"},
        "readiness": readiness or {"onShortfall": "ServeAndWarn"},
    }


def file(*lines: str) -> Spec:
    """Return a bucketing section with the strategy `File` and these lines."""
    return {"strategy": "File", "file": "".join(f"{line}\n" for line in lines)}


def linear(prompt: Spec | None = None, decode: Spec | None = None) -> Spec:
    """Return a `Linear` bucketing section with (min, step, max) by dimension. Missing dimensions have few values."""
    few = {"batchSize": (1, 1, 1), "query": (128, 128, 256), "context": (0, 1, 0)}, {"batchSize": (1, 1, 1)}
    phases = zip(("prompt", "decode"), few, (prompt or {}, decode or {"blocks": (1, 1, 10)}), strict=True)
    return {
        "strategy": "Linear",
        **{
            phase: {name: dict(zip(("min", "step", "max"), each, strict=True)) for name, each in (a | b).items()}
            for phase, a, b in phases
        },
    }


def optimal(batch: int, query: int, context: int, **budget: int) -> Spec:
    """Return an `Optimal` bucketing section with about the maximum amount of traffic."""
    chance = random.Random(1)  # noqa: S311
    prompts = [(chance.randint(1, batch), chance.randint(1, query), chance.randint(0, context)) for _ in range(1200)]
    decodes = [(size, 1, chance.randint(size, 9_999)) for size in (chance.randint(1, 250) for _ in range(1200))]
    lines = [
        f"{phase} {b} {q} {c} 1\n" for phase, each in (("prompt", prompts), ("decode", decodes)) for b, q, c in each
    ]
    return {"strategy": "Optimal", "optimal": {"traffic": "".join(lines)[:65_536].rsplit("\n", 1)[0], **budget}}


STAIRS = 3_301
STAIRCASES = spec(
    file(
        *(f"(5000, {query}, {STAIRS - query + 1})" for query in range(STAIRS, 1, -1)), "(range(1,5000),2,0)", "(1,1,1)"
    )
)
"""54 KB of buckets: each of 5,000 batch sizes has a staircase of 3,300 steps."""

BOTH_FULL = spec(
    linear({"batchSize": (1, 1, 498), "query": (2, 1, 500)}, {"batchSize": (1, 1, 498), "blocks": (500, 1, 998)}),
    maxNumPrefillSeqs=2_236,
    settings=SPLIT,
)
"""Nearly 250,000 buckets in each phase."""

ACCEPTED = {
    "one batch size with 990 steps": spec(
        file(*(f"(4096,{query},{4097 - query})" for query in range(4096, 3106, -1)), "(1,1,1)"), maxNumPrefillSeqs=4096
    ),
    "a file of 5,000 buckets": spec(file("(range(1,51),range(2,101),0)", "(1,1,1)"), maxNumPrefillSeqs=500),
    "a file of 4,900 batch sizes": spec(file("(range(1,4901),2,1)", "(1,1,1)"), maxNumPrefillSeqs=65_536),
    "a file whose buckets are all dropped but two": spec(
        file("(range(400,450),range(60000,60099),0)", "(1,2,0)", "(1,1,1)"),
        maxNumPrefillSeqs=500,
        maxNumBatchedTokens=65_536,
    ),
    "a file that is a comment of four bytes a character": spec(file("(1,2,0)", "(1,1,1)", "#" + "\U0001f600" * 65_000)),
    "250,000 buckets in both phases": BOTH_FULL,
    "490,000 candidates for 50 buckets": spec(
        linear({}, {"batchSize": (1, 1, 50), "blocks": (50, 1, 9_900)}),
        {"maxModelLen": 4_096},
        blockSize=4_096,
        maxNumPrefillSeqs=1,
        settings=SPLIT,
    ),
    "exponential with the largest limits": spec(
        {"strategy": "Exponential"}, {"maxModelLen": 16_777_216}, maxNumPrefillSeqs=65_536
    ),
    "optimal for 512 prompts at a time": spec(
        optimal(500, 200, 9),
        {"maxModelLen": 131_072},
        blockSize=128,
        maxNumSeqs=512,
        maxNumPrefillSeqs=512,
        maxNumBatchedTokens=131_072,
    ),
    "optimal for 20,000 graphs": spec(
        optimal(64, 128, 9, promptGraphs=20_000, decodeGraphs=20_000),
        {"maxModelLen": 32_768},
        blockSize=128,
        maxNumSeqs=256,
        maxNumPrefillSeqs=64,
        maxNumBatchedTokens=8_192,
    ),
}
"""Plausible large plans by description."""

REFUSED = {
    "staircases": (STAIRCASES, "the file has more than 1000 lines with buckets"),
    "more than 250,000 buckets": (
        spec(linear({"batchSize": (1, 1, 50), "query": (1, 1, 1000), "context": (0, 1, 99)})),
        "Choose larger steps in bucketing.prompt",
    ),
    "brackets": (spec(file(*["(" * 4_000] * 16)), "bucket file, line 1"),
    "digits": (spec(file(f"({'9' * 4_000},1,1)")), "bucket file, line 1"),
    "names of settings": (
        spec(
            {"strategy": "Exponential"},
            {"maxModelLen": 4_096},
            settings={f"VLLM_{'A' * 100}{number}": "x" * 1_024 for number in range(128)},
        ),
        "spec.engine.settings: ",
    ),
    "a range of 25,000 values": (
        spec(linear({}, {"batchSize": (1, 1, 40), "blocks": (50, 1, 25_000)}), settings=SPLIT),
        "spec.bucketing.decode.blocks: a step of 1 up to 25000 gives more than 10000 values",
    ),
    "no memory": (
        {**spec({"strategy": "Exponential"}), "accelerator": {"generation": "none", "deviceMemory": "0"}},
        "spec.accelerator.deviceMemory 0 ",
    ),
    "traffic without a line": (
        spec({"strategy": "Optimal", "optimal": {"traffic": ""}}, blockSize=128, maxNumPrefillSeqs=1),
        "the traffic of strategy Optimal has no ",
    ),
}
"""Refused plans by description, with a part of the message."""
