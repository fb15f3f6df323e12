"""The environment of these tests: the plugin's source, and an interpreter with the vLLM of the plugin's release.

    PLUGIN_PAIR=main python -m tests.plugin.environment

Without PLUGIN_PAIR, the pair is the default release. The pair `main` is a commit of the plugin's main branch with the
vLLM that it was made for. The command creates the source folder and the interpreter once, in the cache folder. It
prints shell commands that set the variables. If the source is not available, the shell commands end the shell.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

RELEASE = "0.26.0"
MAIN = "main"


class Pair(NamedTuple):
    """A release of the plugin: the folder of its archive, its revision, and the vLLM release that it was made for."""

    folder: str
    revision: str
    vllm: str


PAIRS = {
    RELEASE: Pair(f"vllm-gaudi-v{RELEASE}", f"v{RELEASE}", RELEASE),
    MAIN: Pair("vllm-gaudi-091bbadd", "091bbadda10bee4fd3f6d0efc1844d2610dd2707", "0.28.0"),
}
PAIR = PAIRS[os.environ.get("PLUGIN_PAIR") or RELEASE]
REPOSITORY = "https://github.com/vllm-project/vllm-gaudi"
ROOT = Path(__file__).parents[2]
PINS, ANOTHER_VLLM = ROOT / "requirements" / "plugin.txt", ROOT / "requirements" / "another-vllm"
# The plugin's main branch imports torchvision, and classes that transformers 5.17 no longer has.
PACKAGES_OF_MAIN = ("torchvision==0.28.0", "transformers==5.16.0", "tokenizers==0.23.1", "huggingface-hub==1.33.0")
UV = Path(sys.executable).with_name("uv")
CARD = Path(__file__).parent / "card"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gaudi-operator"


class NoSource(Exception):
    """The plugin's source is not available."""


def source() -> Path:
    """Return the folder with the plugin's package.

    The folder is PLUGIN_SRC, ../shared/plugin, or a clone of the public repository. Raises NoSource if none is
    available.
    """
    if given := os.environ.get("PLUGIN_SRC"):
        return _checked(Path(given))
    found = CACHE / PAIR.folder
    if not found.is_dir():
        _fetch_source(found)
    return _checked(found)


def _fetch_source(found: Path) -> None:
    made = Path(f"{found}.{os.getpid()}")
    archive = ROOT.parent / "shared" / "plugin" / f"{PAIR.folder}.tar.gz"
    try:
        if archive.is_file():
            with tarfile.open(archive) as packed:
                packed.extractall(made, filter="data")
            made.joinpath(PAIR.folder).rename(found)
        else:
            for command in (
                ("init", "--quiet", str(made)),
                ("-C", str(made), "fetch", "--quiet", "--depth=1", REPOSITORY, PAIR.revision),
                ("-C", str(made), "checkout", "--quiet", "FETCH_HEAD"),
            ):
                subprocess.run(["git", *command], check=True, capture_output=True, text=True, timeout=300)
            made.rename(found)
    except (OSError, subprocess.SubprocessError) as error:
        raise NoSource(
            f"The source of {PAIR.folder} is neither at {archive} nor to be had from {REPOSITORY}: "
            "set PLUGIN_SRC to a folder with it."
        ) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _checked(folder: Path) -> Path:
    if not (folder / "vllm_gaudi" / "__init__.py").is_file():
        raise NoSource(f"{folder} has no package vllm_gaudi: set PLUGIN_SRC to the root of the plugin's source.")
    return folder


def interpreter() -> Path:
    """Return the Python interpreter with vLLM and the other packages of the plugin's release."""
    pins = PINS if PAIR.vllm == RELEASE else ANOTHER_VLLM
    key = hashlib.sha256(pins.read_bytes() + sys.version.encode()).hexdigest()[:8]
    found = CACHE / (f"plugin-{key}" if PAIR.vllm == RELEASE else f"plugin-{PAIR.vllm}-{key}")
    if not found.is_dir():
        print("Making the environment of the plugin's release (3 GB, once)", file=sys.stderr)  # noqa: T201
        # Install into a folder with a temporary name, and rename the folder at the end. The final folder is then always
        # complete. The rename breaks the scripts of the environment, but these tests use only the interpreter.
        made = Path(f"{found}.{os.getpid()}")
        try:
            (_install_pins if PAIR.vllm == RELEASE else _install_another_vllm)(made)
            made.rename(found)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return found / "bin" / "python"


def _install_pins(made: Path) -> None:
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, str(made)], check=True)
    _install(made, "--require-hashes", "--requirement", str(PINS))


def _install_another_vllm(made: Path) -> None:
    path = f"{UV.parent}{os.pathsep}{os.environ['PATH']}"
    command = [str(ANOTHER_VLLM), PAIR.vllm, str(made), sys.executable]
    subprocess.run(command, check=True, env={**os.environ, "PATH": path})
    _install(made, *PACKAGES_OF_MAIN)


def _install(made: Path, *packages: str) -> None:
    pip = [str(UV), "pip", "install", "--quiet", "--no-deps", *packages]
    subprocess.run(pip, check=True, env={**os.environ, "VIRTUAL_ENV": str(made)})


def path() -> str:
    """Return PYTHONPATH: the simulated card, the plugin and this project."""
    # The first distribution of a name counts, so the one of the main branch hides the one of the default release.
    first = (Path(__file__).parent / MAIN,) if PAIR is PAIRS[MAIN] else ()
    return os.pathsep.join(map(str, (*first, CARD, source(), ROOT / "operator", ROOT / "runtime", ROOT)))


def main(environment: Mapping[str, str] = os.environ) -> None:
    """Print shell commands that set the environment variables.

    Without the plugin's source, this program fails in CI. Elsewhere, it prints the reason and commands that end the
    shell.
    """
    try:
        found = path()  # Find the source first: without it no environment is needed.
        print(f"export PLUGIN_PYTHON={interpreter()} PYTHONPATH={found}")  # noqa: T201 - the answer
        if PAIR is PAIRS[MAIN]:
            print("export GAUDI_RUNTIME_ANY_VLLM=1")  # noqa: T201 - the answer
    except NoSource as error:
        if environment.get("CI") == "true":
            sys.exit(str(error))
        print(skip_message(error), file=sys.stderr)  # noqa: T201
        print("exit 0")  # noqa: T201 - the answer


def skip_message(error: NoSource) -> str:
    """Return the message that explains skipped tests outside of CI."""
    return f"The tests on the plugin's own code are left out. {error}"


if __name__ == "__main__":
    main()
