"""Hooks of mkdocs that copy files outside docs/ into the built manual, below files/.

- Files of the repository, such as examples. On GitHub, a link like `../../examples/tiny-sim.yaml` leads to the file. In
  the built manual, the link leads to the copy. A missing file fails the build.
- The script that draws mermaid fences, if `make manual` has downloaded it into build/mermaid. Otherwise the fences stay
  text, because the theme would load the script from another host.
"""

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.superfences import fence_code_format

_LINK = re.compile(r"(?<=\]\()(?P<path>[^)#\s:]+)(?=[)#])")
_COPIES = "files"
_MERMAID = Path("build/mermaid/mermaid.min.js")
_MERMAID_COPY = f"{_COPIES}/{_MERMAID.name}"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Enable mermaid if its script was downloaded."""
    if _MERMAID.is_file():
        fence = {"name": "mermaid", "class": "mermaid", "format": fence_code_format}
        config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = [fence]
    return config


def _target_outside_docs(page: str, link: str) -> str | None:
    """Return the repository path of the target of a link in docs/`page`, or None if the target is in docs/."""
    target = normpath(f"docs/{PurePosixPath(page).parent}/{link}")
    return None if target.startswith("docs/") else target


def _copy_of(target: str) -> str:
    # A copy that ends in .md would become a page, and its own links would be wrong.
    return f"{_COPIES}/{target}.txt" if target.endswith(".md") else f"{_COPIES}/{target}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside docs/ that pages link to, and the mermaid script."""
    if _MERMAID.is_file():
        files.append(File.generated(config, _MERMAID_COPY, abs_src_path=str(_MERMAID.resolve())))
    for page in list(files.documentation_pages()):
        for match in _LINK.finditer(page.content_string):
            target = _target_outside_docs(page.src_uri, match["path"])
            if target and Path(target).is_file() and not files.get_file_from_path(_copy_of(target)):
                files.append(File.generated(config, _copy_of(target), abs_src_path=str(Path(target).resolve())))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace links to files outside docs/ with links to the copies. mkdocs reports links to missing files."""
    page_uri = page.file.src_uri

    def replace_link(match: re.Match[str]) -> str:
        target = _target_outside_docs(page_uri, match["path"])
        copy = target and _copy_of(target)
        copied_file = copy and files.get_file_from_path(copy)
        return relpath(copy, PurePosixPath(page_uri).parent) if copy and copied_file else match["path"]

    return _LINK.sub(replace_link, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Load the mermaid script only on pages with diagrams, because the script is large.

    The theme uses a loaded script.
    """
    if not files.get_file_from_path(_MERMAID_COPY) or '<pre class="mermaid">' not in html:
        return html
    return f'{html}\n<script src="{relpath(_MERMAID_COPY, PurePosixPath(page.file.src_uri).parent)}"></script>'
