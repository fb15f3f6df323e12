"""The manifest of an entry: a written manifest can be read, and other content is unusable with a reason."""

import hashlib
import json
from contextlib import suppress
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaudi_runtime.artifacts.recipe_cache.manifest import (
    ManifestFile,
    ManifestMismatch,
    RecipeManifest,
    format_recipe_manifest,
    parse_recipe_manifest,
)
from gaudi_runtime.buckets.bucket import Bucket
from gaudi_runtime.contract.report import BucketPhase
from gaudi_runtime.engine_protocol.engine import RecipeKey
from gaudi_runtime.warmup.estimate import EstimateStepKind
from gaudi_runtime.warmup.journal import JournalRecipes

KEY = RecipeKey(software="1.22 hpuGraphs", card="gaudi2", model="llama", dtype="bfloat16", parallelism="tensor 1")
COMPILED = (EstimateStepKind.COMPILE, BucketPhase.PROMPT, Bucket(4, 512, 0))
DIGITS = "0123456789abcdef"
FILES = st.builds(ManifestFile, sha256=st.text(DIGITS, min_size=64, max_size=64), size=st.integers(0, 2**40))
NAMES = st.text("abc.-_", min_size=1, max_size=8).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


def stored(digit: str, size: int = 1) -> ManifestFile:
    return ManifestFile(sha256=digit * 64, size=size)


def manifest(**files: ManifestFile) -> RecipeManifest:
    return RecipeManifest(files, JournalRecipes({COMPILED: 2.5}))


@given(st.dictionaries(PATHS, FILES, max_size=5))
def test_manifest_reads_back_as_written(files: dict[str, ManifestFile]) -> None:
    desired = RecipeManifest(files, JournalRecipes({COMPILED: 2.5}))
    assert parse_recipe_manifest(format_recipe_manifest(desired, KEY), KEY) == desired


@pytest.mark.parametrize("field", [field.name for field in fields(RecipeKey)])
def test_manifest_with_another_key_is_refused(field: str) -> None:
    text = format_recipe_manifest(manifest(), replace(KEY, **{field: "another"}))
    with pytest.raises(
        ManifestMismatch, match=r"^the manifest is for other software or for another card, model, dtype or parallelism$"
    ):
        parse_recipe_manifest(text, KEY)


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_one_changed_byte_is_detected(at: int, change: int) -> None:
    content = bytearray(format_recipe_manifest(manifest(a=stored("a")), KEY).encode())
    content[at % len(content)] ^= change
    with pytest.raises(ManifestMismatch):
        parse_recipe_manifest(content.decode(errors="replace"), KEY)


@pytest.mark.parametrize("path", ["/etc/passwd", "../other/file", "a/../../b", "", "a\0b"])
def test_files_outside_of_the_folder_are_refused(path: str) -> None:
    text = format_recipe_manifest(RecipeManifest({path: stored("a")}, JournalRecipes({})), KEY)
    with pytest.raises(ManifestMismatch, match="lists a file outside the folder of the recipes"):
        parse_recipe_manifest(text, KEY)


@given(st.text(max_size=200))
def test_any_text_is_a_manifest_or_unusable(text: str) -> None:
    with suppress(ManifestMismatch):
        parse_recipe_manifest(text, KEY)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"format": 2}, "the manifest has an unknown format"),
        ({"journal": "no journal"}, "the journal in the manifest is unusable"),
    ],
    ids=["form", "journal"],
)
def test_json_that_is_no_manifest_is_refused_with_a_reason(changes: dict[str, object], why: str) -> None:
    whole = json.loads(format_recipe_manifest(manifest(), KEY).partition("\n")[2])
    body = json.dumps({**whole, **changes})
    with pytest.raises(ManifestMismatch, match=why):
        parse_recipe_manifest(f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}", KEY)


@pytest.mark.parametrize(
    ("other", "is_news"),
    [
        (RecipeManifest({"a": stored("a")}, JournalRecipes({COMPILED: 9.0})), False),
        (RecipeManifest({"a": stored("b")}, JournalRecipes({COMPILED: 2.5})), True),
        (RecipeManifest({"a": stored("a")}, JournalRecipes({})), True),
    ],
    ids=["seconds", "content", "step"],
)
def test_manifests_differ_by_files_and_steps_but_not_seconds(other: RecipeManifest, is_news: bool) -> None:
    assert manifest(a=stored("a")).matches(other) is not is_news


def test_merge_keeps_files_of_two_pods_and_stored_versions() -> None:
    ours, theirs = manifest(a=stored("a"), b=stored("b")), manifest(b=stored("0"), c=stored("c"))
    assert ours.merge_with(theirs).files == {"a": stored("a"), "b": stored("0"), "c": stored("c")}


def test_content_shared_by_several_files_counts_once() -> None:
    assert manifest(a=stored("a", 10), b=stored("a", 10), c=stored("c", 3)).size == 13
