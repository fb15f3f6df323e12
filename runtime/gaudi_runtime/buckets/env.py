"""The bucket variables of public releases, read into a BucketPolicy (docs/bucketing.md, Variables)."""

import re
from collections.abc import Mapping

from pydantic import ValidationError

from gaudi_runtime.contract.bucketing import BucketPolicy, Strategy
from gaudi_runtime.errors import ConfigError
from gaudi_runtime.quoting import quoted

_NAME = re.compile(r"VLLM_(PROMPT|DECODE)_(BS|QUERY|SEQ|CTX|BLOCK)_BUCKET_(MIN|STEP|MAX|LIMIT|PAD_MAX|PAD_PERCENT)")
_DIMENSIONS = {
    ("PROMPT", "BS"): "batch_size",
    ("PROMPT", "SEQ"): "query",
    ("PROMPT", "QUERY"): "query",
    ("PROMPT", "CTX"): "context",
    ("DECODE", "BS"): "batch_size",
    ("DECODE", "BLOCK"): "blocks",
}
Settings = dict[str, dict[str, dict[str, int]]]
Place = tuple[str, str, str]
"""Phase, dimension and setting: where a variable goes."""


def policy_from_env(strategy: Strategy, variables: Mapping[str, str | int]) -> BucketPolicy:
    """A policy with the ranges that `variables` set, such as VLLM_DECODE_BLOCK_BUCKET_MAX.

    SEQ is the old name of QUERY and yields to it. Raises ConfigError naming the variable at fault.
    """
    settings: Settings = {"prompt": {}, "decode": {}}
    written: dict[Place, str] = {}
    # Old names first, so that the new one is applied last and wins.
    for name in sorted(variables, key=lambda name: "_SEQ_" not in name):
        phase, dimension, setting = place = _place(name)
        settings[phase].setdefault(dimension, {})[setting] = _whole(name, variables[name])
        written[place] = name
    return _validated(strategy, settings, written)


def _place(name: str) -> Place:
    match = _NAME.fullmatch(name)
    dimension = match and _DIMENSIONS.get((match[1], match[2]))
    if not match or not dimension:
        raise ConfigError(_why_no_bucket_variable(name))
    return match[1].lower(), dimension, match[3].lower()


def _why_no_bucket_variable(name: str) -> str:
    # Imported here: the table of all knobs is read only to answer a mistake.
    from gaudi_runtime.knobs.nearest import unknown_name
    from gaudi_runtime.knobs.table import knobs

    if name in knobs():
        return f"{name} is not a bucket variable: leave it out of env (docs/bucketing.md, Variables)"
    return unknown_name(name)


def _whole(name: str, value: str | int) -> int:
    try:
        if isinstance(value, bool):
            raise ValueError
        return int(value)
    except ValueError as error:
        raise ConfigError(f"{name}: {quoted(repr(value))} is not a whole number") from error


def _validated(strategy: Strategy, settings: Settings, written: Mapping[Place, str]) -> BucketPolicy:
    try:
        return BucketPolicy.model_validate({"strategy": strategy, **settings})
    except ValidationError as error:
        first = error.errors()[0]
        phase, dimension, setting = map(str, first["loc"])
        name = written[phase, dimension, setting]
        raise ConfigError(f"{name}: {first['msg']}, got {quoted(str(first['input']))}") from error
