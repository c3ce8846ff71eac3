"""The command line of benchmarks, and the files of their results: a page of Markdown, and its figures as JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.rounds import Measured


def command_line(
    description: str | None, rounds: int, scale: Callable[[str], float] = int, default_scale: str = "1"
) -> argparse.ArgumentParser:
    """Return a parser with the options that all benchmarks have. `scale` converts the scale."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--scale", type=scale, default=scale(os.environ.get("SF", default_scale)))
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--only", nargs="*", default=[""], help="run only queries whose name contains one of these")
    parser.add_argument("--cache", type=Path, default=Path(".cache/bench"))
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    return parser


def is_chosen(name: str, only: Iterable[str]) -> bool:
    """Return whether a name contains one of the strings of the option `--only`."""
    return any(text in name for text in only)


def table_head(titles: Sequence[str]) -> list[str]:
    """Return the first two lines of a table."""
    return [table_line(titles), "|" + "---|" * len(titles)]


def table_line(cells: Iterable[str]) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(cells)} |"


class ResultTable:
    """A table that is printed line by line, and written after every query, so that an interrupted run keeps it."""

    def __init__(self, page: Path, title: str, about: str, titles: Sequence[str] = ()) -> None:
        """Set the page, its title, and what was measured. `titles` are those of the columns."""
        self._page, self._title, self._about = page, title, about
        self.figures: dict[str, object] = {}
        self.lines: list[str] = []
        if titles:
            self.add_lines(table_head(titles))

    def add_lines(self, lines: Iterable[str]) -> None:
        """Print and write lines."""
        new_lines = list(lines)
        print(*new_lines, sep="\n", flush=True)
        self.lines += new_lines
        write_page(self._page, self._title, self._about, self.lines, self.figures or None)

    def add(self, name: str, cells: Iterable[str], measured: Mapping[str, Measured] | None = None) -> None:
        """Print and write the line of a query. The measurements go to the figures."""
        if measured is not None:
            self.figures[name] = {engine: asdict(each) for engine, each in measured.items()}
        self.add_lines([table_line(cells)])


def write_page(page: Path, title: str, about: str, lines: Sequence[str], figures: object = None) -> None:
    """Write a page, and figures to a JSON file of the same name.

    `about` says what was measured. A sentence about the machine follows it.
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
