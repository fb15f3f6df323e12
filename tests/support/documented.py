"""The commands of README.md and the start pages, with the tests that run them, the order and the substitutions.

A block is a fenced code block in the language `sh`. The name of a block consists of the page, the heading, and the
number of the block below this heading.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.builders import merged

ROOT = Path(__file__).parents[2]
README = "README.md"
QUICKSTART, INSTALL, LLAMA = (f"docs/start/{name}.md" for name in ("quickstart", "install", "llama"))
PAGES = (README, QUICKSTART, INSTALL, LLAMA)


@dataclass(frozen=True)
class Substitution:
    """A replacement of text in each block. `{port}` is a free port of the machine."""

    written: str
    run: str
    reason: str

    def apply(self, commands: str, port: int) -> str:
        """Return the commands with all substitutions, as the tests run them."""
        return commands.replace(self.written, self.run.replace("{port}", str(port)))


SUBSTITUTIONS = (
    Substitution("8080", "{port}", "Another program of the machine may use port 8080."),
    Substitution(
        "kubectl apply -f llama.yaml",
        "kubectl apply -f tiny-llama.yaml",
        "The emulated card has 64 MiB, so the model is a tiny Llama from a hub on this machine (`tiny_llama`).",
    ),
    Substitution(
        "--timeout=2h", "--timeout=5m", "A model of this size is Ready within a minute, so a failure shows early."
    ),
    Substitution("--timeout=1h", "--timeout=3m", "A model of this size is downloaded in seconds."),
    Substitution(
        "kubectl gaudi status llama -w",
        "timeout 3 kubectl gaudi status llama -w || test $? = 124",
        "The command does not end by itself; the page ends it with Ctrl-C.",
    ),
)
"""All differences between a block and what is run. `docker` is tests/e2e/docker_stand_in.py."""

NOT_RUN = {
    f"{README}, Without a card 1": (
        "demo/story.py",
        "`make test` runs these tests. `make demo` starts a cluster of its own; its first step makes theirs.",
    ),
    f"{QUICKSTART}, Start a cluster 1": (
        "demo/story.py",
        "`make demo` starts a cluster of its own. Each cluster of the end-to-end tests is made by its first step.",
    ),
    **{
        f"{INSTALL}, From the files of a release {number}": (
            "tests/ecosystem/test_release.py",
            "The test builds a release and runs this block in its folder.",
        )
        for number in (1, 2, 3, 4)
    },
    f"{LLAMA}, A model for text and images 2": (
        "tests/plugin/test_vision.py",
        "The vision tower of this model is too large for the emulated card. The test serves a tiny one of its family.",
    ),
}
"""The blocks that the end-to-end tests do not run: the file that comes closest, and the reason."""

IN_QUICKSTART = tuple(
    f"{QUICKSTART}, {place}"
    for place in (
        "Start a cluster 2",
        "Serve a model 1",
        "Ask it 1",
        "Upgrade it 1",
        "Upgrade it 2",
        "Upgrade it 3",
        "Upgrade it 4",
        "Find out why a model is not ready 1",
        "Remove it 1",
    )
)
"""The blocks of tests/e2e/test_quickstart.py, in the order in which they run in one shell."""

UNINSTALL, DELETE = f"{INSTALL}, Removing 1", f"{INSTALL}, Removing 2"

ON_CARD = (
    (UNINSTALL, DELETE, f"{INSTALL}, Images 1", f"{README}, On Gaudi 1", f"{README}, On Gaudi 2"),
    (
        f"{INSTALL}, Commands 1",
        UNINSTALL,  # the model keeps running, and the next page installs an operator for it again
        f"{LLAMA}, Install the operator 1",
        f"{LLAMA}, Create the secret 1",
        f"{LLAMA}, Forecast 1",
        f"{LLAMA}, Apply and wait 1",
        f"{LLAMA}, Apply and wait 2",
        f"{LLAMA}, Ask 1",
        f"{LLAMA}, Keep the weights in a PVC 1",
        f"{LLAMA}, A model for text and images 1",
    ),
    (
        UNINSTALL,
        f"{INSTALL}, OpenShift and OLM 1",
        UNINSTALL,
        f"{INSTALL}, Installing 1",
        f"{INSTALL}, Upgrading 1",
        UNINSTALL,
        DELETE,
        f"{INSTALL}, Without Helm 1",
        f"{INSTALL}, From kubectl to Helm 1",
    ),
)
"""The blocks of tests/e2e/test_start_pages.py: for each shell, in the order in which they run."""

RUN = {*IN_QUICKSTART, *(name for shell in ON_CARD for name in shell)}


def fences(page: str, language: str) -> dict[str, str]:
    """Return the texts of all fenced code blocks in a language, by page, heading and number."""
    found: dict[str, str] = {}
    heading, number, inside = "", 0, ""
    for line in (ROOT / page).read_text().splitlines():
        if inside:
            if line == "```":
                inside = ""
            elif inside == language:
                found[f"{page}, {heading} {number}"] += f"{line}\n"
        elif line.startswith("```"):
            inside = line.removeprefix("```") or "text"
            if inside == language:
                number += 1
                found[f"{page}, {heading} {number}"] = ""
        elif line.startswith("#"):
            heading, number = line.lstrip("# "), 0
    return found


def blocks() -> dict[str, str]:
    """Return the commands of all pages by block name."""
    return {name: text for page in PAGES for name, text in fences(page, "sh").items()}


def documents(name: str) -> list[dict[str, Any]]:
    """Return the YAML documents in the fenced code block `name`."""
    return list(yaml.safe_load_all(fences(name.partition(", ")[0], "yaml")[name]))


def llama() -> dict[str, Any]:
    """Return the manifest that README.md and the Llama page save as llama.yaml."""
    (manifest,) = documents(f"{README}, On Gaudi 1")
    return manifest


def tiny_llama(hub: str) -> dict[str, Any]:
    """Return llama.yaml with another hub address, and with lengths and buckets for the emulated card.

    The address begins with http://, so pods do not send the token.
    """
    changes = {
        "model": {"tokenSecretRef": None, "dtype": "bfloat16", "maxModelLen": 256},
        "engine": {
            "maxNumSeqs": 2,
            "settings": {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"},  # saves an interpreter
            "env": [{"name": "HF_ENDPOINT", "value": hub}],
        },
        "bucketing": {
            "strategy": "Linear",
            "prompt": {"query": {"min": 128, "step": 128, "max": 256}},
            "decode": {"batchSize": {"min": 2, "step": 2, "max": 2}, "blocks": {"min": 8, "step": 8, "max": 8}},
        },
        "pod": {"resources": {"requests": {"cpu": "250m"}, "limits": {"memory": "6Gi"}}},
    }
    return merged(llama(), {"spec": changes})
