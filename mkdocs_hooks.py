"""Hooks of the documentation site, whose pages are written for GitHub.

Files of the repository that pages link to, such as `../dags/flights_scan.py`, become part of the site below `project/`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent
DOCS = ROOT / "docs"
PROJECT = "project/"
PROJECT_PAGES = ("CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)(#[^)]*)?\)")
_TABLE_ROW = re.compile(r"^\|.*\|$", re.MULTILINE)
_CODE = re.compile(r"`[^`]*`")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the project, and every file that a page links to."""
    open_pages = [*(ROOT / name for name in PROJECT_PAGES), *DOCS.rglob("*.md")]
    known = set(open_pages)
    while open_pages:
        page = open_pages.pop()
        if not page.is_relative_to(DOCS):
            files.append(_file(page, config))
        for link, _ in _LINK.findall(page.read_text(encoding="utf-8")):
            target = (page.parent / link).resolve()
            if target in known or not target.is_file() or target.is_relative_to(DOCS):
                continue
            known.add(target)
            if target.suffix == ".md":
                open_pages.append(target)
            else:
                files.append(_file(target, config))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links between `docs/` and the rest of the repository, and pipes in the code of tables."""
    return _TABLE_ROW.sub(_without_escapes, _LINK.sub(_rewriter(page.file.src_uri), markdown))


def _without_escapes(row: re.Match[str]) -> str:
    """Remove the backslash before pipes in code. GitHub needs it in tables, and Python-Markdown shows it."""
    return _CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0])


def _file(path: Path, config: MkDocsConfig) -> File:
    """Return a file of the repository as a file of the site."""
    return File.generated(config, PROJECT + path.relative_to(ROOT).as_posix(), abs_src_path=str(path))


def _site_path(path: Path) -> str:
    """Return the path in the site of a file in the repository."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    return PROJECT + path.relative_to(ROOT).as_posix()


def _rewriter(site_path: str) -> Callable[[re.Match[str]], str]:
    """Return a function that converts a link from GitHub's paths to paths of the site."""
    source = ROOT / site_path.removeprefix(PROJECT) if site_path.startswith(PROJECT) else DOCS / site_path

    def rewrite(link: re.Match[str]) -> str:
        target = (source.parent / link[1]).resolve()
        if not target.is_relative_to(ROOT):
            return link[0]
        relative = os.path.relpath(_site_path(target), Path(site_path).parent)
        return f"]({Path(relative).as_posix()}{link[2] or ''})"

    return rewrite
