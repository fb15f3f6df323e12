"""Hooks of mkdocs: pages link to files of the repository, such as examples, and the built manual brings those along.

On GitHub a link like `../../examples/vllm/cpu.yaml` leads to the file. A built manual has only the folder docs/, so
each such file is copied into it, below files/, and the link is turned there. A file that is not there fails the build.
"""

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_LINK = re.compile(r"(?<=\]\()(?P<path>[^)#\s:]+)(?=[)#])")
_COPIES = "files"


def _outside(page: str, link: str) -> str | None:
    """The path in the repository that a link of docs/`page` leads to; None where it stays in docs/."""
    target = normpath(f"docs/{PurePosixPath(page).parent}/{link}")
    return None if target.startswith("docs/") else target


def _copy_of(target: str) -> str:
    # A copy that ends in .md would be a page, whose own links lead elsewhere.
    return f"{_COPIES}/{target}.txt" if target.endswith(".md") else f"{_COPIES}/{target}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to outside of docs/."""
    for page in list(files.documentation_pages()):
        for found in _LINK.finditer(page.content_string):
            target = _outside(page.src_uri, found["path"])
            if target and Path(target).is_file() and not files.get_file_from_path(_copy_of(target)):
                files.append(File.generated(config, _copy_of(target), abs_src_path=str(Path(target).resolve())))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links that leave docs/ to the copies; one to nothing stays as it is, and mkdocs refuses it."""
    here = page.file.src_uri

    def turned(found: re.Match[str]) -> str:
        target = _outside(here, found["path"])
        copy = target and _copy_of(target)
        known = copy and files.get_file_from_path(copy)
        return relpath(copy, PurePosixPath(here).parent) if copy and known else found["path"]

    return _LINK.sub(turned, markdown)
