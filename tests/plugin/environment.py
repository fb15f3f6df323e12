"""The environment of these tests: the plugin's source, and an interpreter with the packages of the plugin's release.

    python -m tests.plugin.environment

The command creates the source folder and the interpreter once, in the cache folder. It prints shell commands that set
the variables. If the source is not available, the shell commands end the shell.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

RELEASE = "0.26.0"
REPOSITORY = "https://github.com/vllm-project/vllm-gaudi"
ROOT = Path(__file__).parents[2]
PINS = ROOT / "requirements" / "plugin.txt"
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
    found = CACHE / f"vllm-gaudi-{RELEASE}"
    if not found.is_dir():
        _clone(found)
    return _checked(found)


def _clone(found: Path) -> None:
    made = Path(f"{found}.{os.getpid()}")
    archive = ROOT.parent / "shared" / "plugin" / f"vllm-gaudi-v{RELEASE}.tar.gz"
    try:
        if archive.is_file():
            with tarfile.open(archive) as packed:
                packed.extractall(made, filter="data")
            made.joinpath(f"vllm-gaudi-v{RELEASE}").rename(found)
        else:
            clone = ["git", "clone", "--quiet", "--depth=1", f"--branch=v{RELEASE}", REPOSITORY, str(made)]
            subprocess.run(clone, check=True, capture_output=True, text=True, timeout=300)
            made.rename(found)
    except (OSError, subprocess.SubprocessError) as error:
        raise NoSource(
            f"The source of vllm-gaudi {RELEASE} is neither at {archive} nor to be had from {REPOSITORY}: "
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
    key = hashlib.sha256(PINS.read_bytes() + sys.version.encode()).hexdigest()[:8]
    found = CACHE / f"plugin-{key}"
    if not found.is_dir():
        _install(found)
    return found / "bin" / "python"


def _install(found: Path) -> None:
    print("Making the environment of the plugin's release (3 GB, once)", file=sys.stderr)  # noqa: T201
    uv = str(Path(sys.executable).with_name("uv"))
    # Install into a folder with a temporary name, and rename the folder at the end. The final folder is then always
    # complete. The rename breaks the scripts of the environment, but these tests use only the interpreter.
    made = Path(f"{found}.{os.getpid()}")
    try:
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(made)], check=True)
        pip = [uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--requirement", str(PINS)]
        subprocess.run(pip, check=True, env={**os.environ, "VIRTUAL_ENV": str(made)})
        made.rename(found)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def path() -> str:
    """Return PYTHONPATH: the simulated card, the plugin and this project."""
    return os.pathsep.join(map(str, (CARD, source(), ROOT / "operator", ROOT / "runtime", ROOT)))


def main(environment: Mapping[str, str] = os.environ) -> None:
    """Print shell commands that set the environment variables.

    Without the plugin's source, this program fails in CI. Elsewhere, it prints the reason and commands that end the
    shell.
    """
    try:
        found = path()  # Find the source first: without it no environment is needed.
        print(f"export PLUGIN_PYTHON={interpreter()} PYTHONPATH={found}")  # noqa: T201 - the answer
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
