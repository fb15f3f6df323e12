"""The pins in requirements/*.txt."""

import re
from dataclasses import dataclass

_ENTRY = re.compile(r"^(?P<name>[A-Za-z0-9][-A-Za-z0-9_.]*)==(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """A version of a package, and the SHA-256 of each file that may be installed for it."""

    name: str
    version: str
    hashes: tuple[str, ...]

    @property
    def purl(self) -> str:
        """The package URL (purl) of the pin."""
        return f"pkg:pypi/{self.name}@{self.version}"


def pins(text: str) -> list[Pin]:
    """Return the pins in the text of a file that `make pins` has written."""
    entries = re.split(r"\n(?=\S)", text.strip())
    matches = ((_ENTRY.match(entry), _HASH.findall(entry)) for entry in entries)
    return [Pin(plain_name(match["name"]), match["version"], tuple(hashes)) for match, hashes in matches if match]


def plain_name(name: str) -> str:
    """Return the normalized name of a package, with which package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()
