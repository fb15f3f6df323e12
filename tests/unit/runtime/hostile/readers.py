"""The readers of foreign data with the errors that they raise.

The readers read bucket files, traffic, recipe manifests, headers of safetensors files, and reports of pods.
"""

import hashlib
import json
import struct
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from gaudi_operator.shell.polling.status_port import StatusPortReportUnusable, parse_status_port_report
from gaudi_runtime.artifacts.recipe_cache.manifest import (
    ManifestFile,
    ManifestMismatch,
    RecipeManifest,
    format_recipe_manifest,
    parse_recipe_manifest,
)
from gaudi_runtime.artifacts.sources.weights import INDEX_FILE, check_weights
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import (
    MAX_REPORT_BYTES,
    BucketPhase,
    ColdShape,
    Phase,
    RuntimeFailureReport,
    WarmupReport,
)
from gaudi_runtime.engine_protocol.engine import RecipeKey
from gaudi_runtime.errors import ModelNotFound, ModelUnreadable, PlanImpossible
from gaudi_runtime.planning.bucket_file import read_bucket_file
from gaudi_runtime.traffic.histogram import parse_traffic
from gaudi_runtime.warmup.estimate import EstimateStepKind
from gaudi_runtime.warmup.journal import JournalRecipes
from gaudi_runtime.warmup.journal import format_journal as journal_of

KEY = RecipeKey(software="sim", card="gaudi2", model="llama", dtype="auto", parallelism="tensor 1")


@dataclass(frozen=True)
class Reader:
    """A reader of foreign data.

    `read` accepts a content or raises one of `refusals` with a message. `examples` are valid contents.
    """

    examples: tuple[bytes, ...]
    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    words: tuple[bytes, ...] = ()
    most: int = 65_536


def _manifest(content: bytes) -> object:
    # Add a correct checksum, because an attacker who can write a manifest can also write its checksum.
    text = content.decode("utf-8", "replace")
    return parse_recipe_manifest(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}", KEY)


def _manifest_with_journal(content: bytes) -> object:
    body = {
        "format": 1,
        "key": asdict(KEY),
        "files": {},
        "journal": journal_of(JournalRecipes({}), KEY) + content.decode("latin-1"),
    }
    return _manifest(json.dumps(body).encode())


def _weights(content: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "model.safetensors").write_bytes(content)
        check_weights(Path(folder))
    return None


def _weights_of_header(content: bytes) -> object:
    return _weights(struct.pack("<Q", len(content)) + content)


def _index(content: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, INDEX_FILE).write_bytes(content)
        Path(folder, "model.safetensors").write_bytes(struct.pack("<Q", len(_HEADER)) + _HEADER)
        check_weights(Path(folder))
    return None


_STEPS = {(EstimateStepKind.COMPILE, BucketPhase.PROMPT, Bucket(1, 128, 0)): 1.5}
_FILES = {"a/b.recipe": ManifestFile(sha256="0" * 64, size=12)}
_MANIFEST = format_recipe_manifest(RecipeManifest(_FILES, JournalRecipes(_STEPS)), KEY).partition("\n")[2].encode()
_HEADER = b'{"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 0]}}'
_REPORT = WarmupReport(
    instance="a",
    sequence=3,
    plan_hash="b" * 64,
    phase=Phase.FAILED,
    cold_shapes=(ColdShape(phase=BucketPhase.PROMPT, shape=Bucket(1, 2, 3), count=4, compiles=5),),
    failure=RuntimeFailureReport(reason="OutOfMemory", message="It does not fit."),
    warnings=("One.",),
)

READERS = {
    "bucket file": Reader(
        (b"(1, 128, 0)\n(range(1, 9, 2), [128, 256], 0) # two\n\n(4, 1, range(4, 100))\n",),
        lambda content: list(read_bucket_file(content.decode("utf-8", "replace"))),
        (PlanImpossible,),
        (
            b"(",
            b")",
            b"[",
            b"]",
            b"range(",
            b"1_0",
            b"0x",
            b"1e9",
            b"-",
            b"+",
            b"*",
            b"**",
            b"lambda:",
            b"#",
            b"\f",
            b"'",
        ),
    ),
    "traffic": Reader(
        (b"prompt 1 128 0 12.5\ndecode 4 1 12 1e3 # often\n",),
        lambda content: parse_traffic(content.decode("utf-8", "replace")),
        (PlanImpossible,),
        (b"prompt", b"decode", b"nan", b"inf", b"1e309", b"-0", b"1_0", b"\xd9\xa3"),
    ),
    "recipe manifest": Reader((_MANIFEST,), _manifest, (ManifestMismatch,), most=1_000_000),
    "journal of a manifest": Reader(
        (b'{"bucket":[1,128,0],"phase":"prompt","seconds":1.5,"step":"compile"}\n',),
        _manifest_with_journal,
        (ManifestMismatch,),
        most=1_000_000,
    ),
    "safetensors file": Reader(
        (struct.pack("<Q", len(_HEADER)) + _HEADER,), _weights, (ModelUnreadable, ModelNotFound), most=1_000_000
    ),
    "safetensors header": Reader((_HEADER,), _weights_of_header, (ModelUnreadable, ModelNotFound), most=1_000_000),
    "safetensors index": Reader(
        (b'{"weight_map": {"a": "model.safetensors"}}',), _index, (ModelUnreadable, ModelNotFound), most=1_000_000
    ),
    "report": Reader(
        (_REPORT.model_dump_json(by_alias=True).encode(),),
        lambda content: parse_status_port_report(content).model_dump_json(by_alias=True),
        (StatusPortReportUnusable,),
        most=MAX_REPORT_BYTES,
    ),
}
