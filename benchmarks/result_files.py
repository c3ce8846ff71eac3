"""The files of a benchmark's results: a page of Markdown, and its figures as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path


def table_head(titles: Sequence[str]) -> list[str]:
    """Return the first two lines of a table."""
    return ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]


def write_page(page: Path, title: str, about: str, lines: Sequence[str], figures: object = None) -> None:
    """Write a page, and figures to a JSON file of the same name.

    `about` says what was measured. A sentence about the machine follows it. A benchmark calls this after every query,
    so that an interrupted run keeps what it measured.
    """
    machine = (
        f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, load average at the end "
        f"{os.getloadavg()[0]:.1f}; {datetime.now(UTC):%Y-%m-%d}."
    )
    page.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join([f"# {title}", "", f"{about} {machine}", "", *lines])
    page.write_text(text + "\n", encoding="utf-8")
    if figures is not None:
        page.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
