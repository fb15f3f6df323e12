"""What an image must bring; each rule makes one row."""

from gaudi_runtime.doctor.facts import ImageFacts
from gaudi_runtime.doctor.row import MODEL_ENGINES, VLLM, Row, State
from gaudi_runtime.engines.vllm.versions import ANY_RELEASE, RELEASES, Installed

_ANOTHER_IMAGE = "Use the runtime or the runtime-hpu image, or build yours from their Dockerfile."


def torch(image: ImageFacts) -> Row:
    """torch is there and can be imported."""
    found = image.torch
    if not found.version:
        return Row("torch", State.FAIL, "not installed", _ANOTHER_IMAGE, MODEL_ENGINES)
    if found.error:
        return Row("torch", State.FAIL, f"{found.version}, import fails: {found.error}", _ANOTHER_IMAGE, MODEL_ENGINES)
    return Row("torch", State.OK, found.version)


def compiler(image: ImageFacts) -> Row:
    """Inductor writes C++ and compiles it; on a card the bridge compiles by itself."""
    lacking = "no g++" if not image.compiler else "" if image.python_headers else f"{image.compiler}, no Python.h"
    if not lacking:
        return Row("compiler", State.OK, image.compiler)
    advice = "Install g++ and Python's headers (Debian: g++ python3-dev), or run in execution mode eager."
    state = State.WARNING if image.bridge else State.FAIL
    return Row("compiler", state, lacking, advice, VLLM)


def vllm(image: ImageFacts) -> Row:
    """vLLM is there, is of a release that we drive (with its plugin, for cards), and its kernels can be imported."""
    found = image.vllm
    installed = Installed(found.version, image.plugin, cards=bool(image.bridge))
    refused = installed.why_refused()
    if refused and not (installed.whole and image.any_vllm):
        return Row("vllm", State.FAIL, found.version or "not installed", refused, VLLM)
    if found.error:
        return Row("vllm", State.FAIL, f"{found.version}, import fails: {found.error}", _ANOTHER_IMAGE, VLLM)
    if refused:
        advice = f"This runtime drives {installed.driven}."
        return Row("vllm", State.WARNING, f"{found.version}, let pass by {ANY_RELEASE}", advice)
    return Row("vllm", State.OK, f"{found.version}, supported")


def bridge(image: ImageFacts) -> Row:
    """Intel's Gaudi software and vLLM's plugin belong together."""
    found = f"habana-torch-plugin {image.bridge or 'missing'}, vllm-gaudi {image.plugin or 'missing'}"
    if bool(image.bridge) == bool(image.plugin):
        return Row("gaudi software", State.OK, found if image.bridge else "none: an image for CPUs")
    advice = f"Start from Intel's image with PyTorch and vLLM for Gaudi ({RELEASES})."
    return Row("gaudi software", State.FAIL, found, advice, VLLM)


def folders(image: ImageFacts) -> Row:
    """Compiled code, fetched models and sockets need a place; the root file system is read-only in a pod."""
    if not image.read_only:
        return Row("writable folders", State.OK, "caches, home and temporary files")
    advice = "Mount a volume there that this user may write, or name another folder in the variable."
    return Row("writable folders", State.FAIL, f"read-only: {', '.join(image.read_only)}", advice, MODEL_ENGINES)


RULES = (torch, compiler, vllm, bridge, folders)
