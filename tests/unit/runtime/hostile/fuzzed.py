"""Random contents for the readers of foreign data, mutated from valid examples, in a process of 512 MiB.

If one content takes MOST_SECONDS of CPU time, the kernel ends the process, and the number of this content is reported.
The tests assert no wall-clock time.
"""

import json
import os
import random
import signal
import sys
from dataclasses import asdict, dataclass, field

from gaudi_runtime.contract.text import safe_excerpt
from tests.unit.operator.hostile.limited import run
from tests.unit.runtime.hostile.readers import READERS, Reader

MOST_SECONDS = 5.0
"""Several times the expected maximum, for slow machines."""

MOST_SENTENCE = 3_000

_JSON = (
    *(b"{}", b"[]", b"null", b"true", b"-1", b"0", b"1e999", b"-0.0", b"NaN", b"Infinity", b'""', b'"\\ud800"'),
    *(
        b'"\\u0000"',
        b'"\\u001b]52;c;x\\u0007"',
        b"9" * 400,
        b"9" * 4300,
        b"9" * 5000,
        b"18446744073709551616",
        b'":',
        b",",
    ),
    *(b"[" * 20_000, b'{"a":' * 5_000, b'"' + b"a" * 70_000 + b'"', b"[0," * 30_000, b'{"a":{}},' * 9_000),
)
_BYTES = (b"\0", b"\xff", b"\xf0\x9f\x98\x80", b"\n", b"\r", b"\x85", b"\xe2\x80\xa8", b"\x1b[2J", b" " * 9_000, b"\t")


@dataclass
class Found:
    """The number of contents, how many were read and how many were refused, and the faults of a reader."""

    contents: int = 0
    read: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)


def fuzz(name: str, seed: int, contents: int) -> Found:
    """Try `contents` contents with the reader `name`. The same seed gives the same contents."""
    ended = run(_fuzz, name, seed, contents)
    lines = ended.stdout.splitlines()
    if ended.returncode or not lines:
        where = " ".join(lines[-1:])
        return Found(wrong=[f"{name}: ended with {ended.returncode} at {where}: {ended.stderr[-2000:]}"])
    return Found(**json.loads(lines[-1]))


def content_of(reader: Reader, chance: random.Random) -> bytes:
    """Return the next content: an example with some changed places."""
    content = chance.choice(reader.examples)
    for _ in range(chance.choice((1, 1, 2, 4, 9))):
        content = _changed(content, reader, chance)[: reader.most]
    return content


def _changed(content: bytes, reader: Reader, chance: random.Random) -> bytes:
    start = chance.randrange(len(content) + 1)
    end = min(len(content), start + chance.choice((0, 1, 1, 4, 30)))
    words = (*reader.words, *_BYTES, *_JSON)
    # In half of the cases, replace a complete JSON value or number. In the other cases, replace arbitrary bytes.
    if chance.random() < 0.5:
        start, end = _token(content, start)
    repeated = min(chance.choice((1, 2, 1000)), reader.most // (end - start + 1))
    changed: tuple[bytes, ...] = (
        content[:start] + chance.choice(words) + content[end:],
        content[:start] + chance.choice(words) + content[end:],
        content[:start] + content[end:],
        content[:start] + bytes([chance.randrange(256)]) + content[end:],
        content[:end] + content[start:end] * repeated + content[end:],
        content * min(chance.choice((2, 50)), reader.most // (len(content) + 1)),
        content[:start],
    )
    return chance.choice(changed)


def _token(content: bytes, at: int) -> tuple[int, int]:
    """Return the start and end of the word, number or string at `at`."""
    ends = b' ,:[]{}()\n\t"'
    start = max((content.rfind(bytes([each]), 0, at) for each in ends), default=-1) + 1
    after = [found for each in ends if (found := content.find(bytes([each]), at)) >= 0]
    end = min(after, default=len(content))
    if content[start - 1 : start] == b'"' == content[end : end + 1]:
        return start - 1, end + 1
    return start, end


def _fuzz(name: str, seed: int, contents: int) -> None:
    found, reader, chance = Found(), READERS[name], random.Random(seed)  # noqa: S311
    for example in reader.examples:
        reader.read(example)
    for number in range(contents):
        content = content_of(reader, chance)
        # Write the number with `os.write`, which does not buffer, because the kernel may kill the process during this
        # content.
        os.write(1, f"content {number} of seed {seed}\n".encode())
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        try:
            reader.read(content)
            found.read += 1
        except reader.refusals as refusal:
            found.refused += 1
            if wrong := _wrong(str(refusal)):
                found.wrong.append(f"{name}, content {number} of seed {seed}: {wrong}: {safe_excerpt(str(refusal))}")
        except Exception as error:
            found.wrong.append(f"{name}, content {number} of seed {seed}: {type(error).__name__}: {str(error)[:300]!r}")
        signal.setitimer(signal.ITIMER_PROF, 0)
        found.contents += 1
    sys.stdout.write(json.dumps(asdict(found)))


def _wrong(sentence: str) -> str | None:
    """Return the fault of a message that is shown in a terminal and serialized in a report as JSON, or None."""
    if not sentence.strip():
        return "it says nothing"
    if len(sentence) > MOST_SENTENCE:
        return "it is too long"
    try:
        sentence.encode()
    except UnicodeEncodeError:
        return "it is no text"
    return None if sentence.isprintable() else "it holds control characters"
