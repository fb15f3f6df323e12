"""The package settings of this machine for image builds, which leave no trace in the images.

The settings are in one folder, and uv's cache is in another. Both folders are mounted over folders that are empty in
every Debian image. Build arguments, which apply only to the build, point the package managers to these folders. buildah
itself passes on proxies.
"""

import configparser
import json
import os
import shutil
import ssl
import subprocess
from pathlib import Path

from localcluster.errors import LocalClusterError

MOUNT = "/mnt"
CACHE_MOUNT = "/media"
# The releases of Debian from which the images can be built. The first is also used on other distributions.
_SUITES = ("bookworm", "trixie")
_PUBLIC_MIRROR = "http://deb.debian.org"
_ARGUMENTS = {
    "APT_CONFIG": "apt.conf",
    "PIP_CONFIG_FILE": "pip.conf",
    "SSL_CERT_FILE": "ca.crt",
    "UV_CONFIG_FILE": "uv.toml",
}
_PIP_FILES = ("/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")
_PIP_VARIABLES = ("PIP_DEFAULT_TIMEOUT", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_TRUSTED_HOST")
_UV_FILES = ("~/.config/uv/uv.toml", "/etc/uv/uv.toml")


def base_suite(os_release: Path = Path("/etc/os-release")) -> str:
    """Return the release of Debian in the base image: the release of this machine, or bookworm on other machines."""
    machine = os_release.read_text() if os_release.exists() else ""
    return next((suite for suite in _SUITES if f"VERSION_CODENAME={suite}\n" in machine), _SUITES[0])


SUITE = base_suite()


def debian_sources(suite: str = SUITE) -> list[str]:
    """Return the sources of a release of Debian as lines of a sources.list.

    The sources are those of this machine. If it has none of this release, as on Ubuntu, they are Debian's public ones.
    """
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT) $(ORIGIN)"]
    listing = subprocess.run([*command, "Identifier: Packages"], capture_output=True, text=True, check=False)
    targets = {tuple(line.split()) for line in listing.stdout.splitlines()}
    machine_sources = [
        f"deb {target[0]} {target[1]} {target[2]}"
        for target in sorted(targets)
        if target[3:] == ("Debian",) and target[1].startswith(suite)
    ]
    return machine_sources or [
        f"deb {_PUBLIC_MIRROR}/debian {suite} main",
        f"deb {_PUBLIC_MIRROR}/debian {suite}-updates main",
        f"deb {_PUBLIC_MIRROR}/debian-security {suite}-security main",
    ]


def debian_mirror() -> str:
    """Return the URL of the mirror of the main archive."""
    sources = (line.split() for line in debian_sources())
    return next((url for _, url, suite, _ in sources if suite == SUITE), f"{_PUBLIC_MIRROR}/debian")


def write_settings(folder: Path) -> None:
    """Write the settings into `folder`, which builds mount at /mnt."""
    if not shutil.which("apt-config"):
        raise LocalClusterError("Images are built from Debian packages: run this on Debian or Ubuntu.")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "apt.conf").write_text(_apt_settings(folder))
    if ca_bundle := _find_ca_bundle():
        shutil.copy(ca_bundle, folder / "ca.crt")
    pip_settings = _pip_settings(has_ca_bundle=bool(ca_bundle))
    with (folder / "pip.conf").open("w") as file:
        pip_settings.write(file)
    (folder / "uv.toml").write_text(_uv_settings(pip_settings.get("global", "index-url", fallback=None)))


def package_cache() -> Path:
    """Return uv's own cache, which builds mount at /media, so that no package is downloaded twice."""
    cache_root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("UV_CACHE_DIR") or cache_root / "uv")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def add_settings(dockerfile: str, folder: Path) -> str:
    """Return the Dockerfile with build arguments in every stage, which point to `folder` and to the cache."""
    argument_lines = [f"ARG {name}={MOUNT}/{file}" for name, file in _ARGUMENTS.items() if (folder / file).exists()]
    argument_lines.append(f"ARG UV_CACHE_DIR={CACHE_MOUNT}")
    lines = []
    for line in dockerfile.splitlines():
        lines += [line, *(argument_lines if line.startswith("FROM ") else [])]
    return "\n".join(lines) + "\n"


def _apt_settings(folder: Path) -> str:
    """Return the machine's apt settings, and write the sources of Debian packages into `folder`."""
    settings = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    prefixes = ("Acquire::http", "Acquire::https", "Acquire::Retries")
    lines = [line for line in settings.splitlines() if line.startswith(prefixes)]
    (folder / "sources.list").write_text("\n".join(debian_sources()) + "\n")
    lines.append(f'Dir::Etc::SourceList "{MOUNT}/sources.list";')
    lines.append('Dir::Etc::SourceParts "/dev/null";')
    return "\n".join(lines) + "\n"


def _pip_settings(*, has_ca_bundle: bool) -> configparser.ConfigParser:
    """Return the settings of the machine's pip.conf files and PIP_ variables. Variables take precedence."""
    settings = configparser.ConfigParser(interpolation=None)
    settings.read([Path(name).expanduser() for name in _PIP_FILES])
    if "global" not in settings:
        settings["global"] = {}
    for variable in _PIP_VARIABLES:
        if value := os.environ.get(variable):
            settings["global"][variable.removeprefix("PIP_").lower().replace("_", "-")] = value
    settings["global"].pop("cert", None)
    if has_ca_bundle:
        settings["global"]["cert"] = f"{MOUNT}/ca.crt"
    return settings


def _uv_settings(pip_index: str | None) -> str:
    """Return the machine's uv.toml, or a uv.toml with the index from its variables or from pip's settings."""
    for file in (Path(name).expanduser() for name in _UV_FILES):
        if file.is_file():
            return file.read_text()
    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL") or pip_index
    return f"index-url = {json.dumps(index)}\n" if index else ""


def _find_ca_bundle() -> str | None:
    candidates = (os.environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().openssl_cafile)
    paths = (*candidates, "/etc/ssl/certs/ca-certificates.crt")
    return next((path for path in paths if path and Path(path).is_file()), None)
