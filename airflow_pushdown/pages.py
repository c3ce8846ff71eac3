"""Writes the documentation of the operators: a page each, with parameters and an example DAG, and one of settings."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_pushdown import operators
from airflow_pushdown.parameters import (
    FIXED_SETTINGS,
    JOIN,
    LAZY_ORC,
    REMOTE,
    SCAN,
    SOURCE_FORMATS,
    SUBMIT_DEFAULTS,
    UNSAFE_SETTINGS,
    rows_for,
    serialise,
)


@dataclass(frozen=True)
class _Page:
    """What the page of an operator points to: its file, its example DAG, and further pages with their titles."""

    file: str
    dag: str
    more: Mapping[str, str]


_DECIDED = {"../pushdown.md": "How pushdown is decided", "../projection.md": "Columns"}
_PAGES = {
    SCAN: _Page("scan.md", "flights_scan.py", {**_DECIDED, "../avro.md": "Avro", "../object-stores.md": "Stores"}),
    LAZY_ORC: _Page("orc.md", "flights_orc.py", {**_DECIDED, "../object-stores.md": "Stores"}),
    REMOTE: _Page("remote.md", "flights_remote.py", {"../remote.md": "What each database answers"}),
    JOIN: _Page("join.md", "flights_join.py", {"../joins.md": "The order of joins", **_DECIDED}),
}


def pages(dags: Path) -> dict[str, str]:
    """The pages by their names below docs/; `dags` is the directory of the example DAGs."""
    return {"parameters.md": _settings()} | {
        f"operators/{page.file}": _operator(name, page, (dags / page.dag).read_text(encoding="utf-8"))
        for name, page in _PAGES.items()
    }


def _operator(name: str, page: _Page, dag: str) -> str:
    """The page of one operator: what its docstring says of it, its table, its example."""
    about = inspect.getdoc(getattr(operators, name)) or ""
    lines = [
        f"# {name}",
        "",
        "Written by `make docs` from the operator, the table of parameters and an example DAG.",
        "",
        about.partition(":param ")[0].strip(),
        "",
        f"See also: {', '.join(f'[{title}]({link})' for link, title in page.more.items())},",
        "[Writing files](../output.md), [settings of every job](../parameters.md).",
        "",
        "## Parameters",
        "",
        *_table(name),
        "",
        "## Example",
        "",
        f"[dags/{page.dag}](../../dags/{page.dag}), which the tests run:",
        "",
        "```python",
        dag.rstrip(),
        "```",
        "",
    ]
    return "\n".join(lines)


def _settings() -> str:
    """The page of what holds for all operators."""
    lines = [
        "# Parameters",
        "",
        "Written by `make docs` from the table in `airflow_pushdown/parameters.py`. Each operator has a page:",
        "",
        *(f"- [{name}](operators/{page.file})" for name, page in _PAGES.items()),
        "",
        "Every parameter of `SparkSubmitOperator` is taken as well, with its name and meaning, except `application`,",
        "`application_args` and `java_class`: the program is ours. Values that `conf` holds under a name that suggests",
        "a credential are handed to spark-submit in a private file instead of on its command line.",
        "",
        "A `conf` entry wins over the default of a parameter that maps to the same key; if it contradicts a parameter",
        "that was given, the task fails before anything is submitted and names both.",
        "",
        "## Settings of every job",
        "",
        "| Spark key | value | why |",
        "|---|---|---|",
        *(f"| `{s.key}` | `{s.value}` | {s.reason} |" for s in FIXED_SETTINGS),
        *(f"| `{key}` | `{value}` | default, `conf` may change it |" for key, value in SUBMIT_DEFAULTS.items()),
        "",
        "## Settings that are refused",
        "",
        "| Spark key, or reader option | value | where files are | why |",
        "|---|---|---|---|",
        *(f"| `{s.key}`, `{s.hadoop_key}` | `{s.value}` | {s.source_format} | {s.reason} |" for s in UNSAFE_SETTINGS),
        "",
    ]
    return "\n".join(lines)


def _table(operator: str) -> list[str]:
    """Lines of the table of one operator."""
    lines = [
        "| parameter | type | default | Spark keys | templated | secret | meaning |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows_for(operator):
        default = "required" if row.required else f"`{serialise(row.default) or 'none'}`"
        keys = "<br>".join(
            [f"`{key}`" for key in row.spark_keys(SOURCE_FORMATS.get(operator))]
            + [f"`{key}` (never set)" for key in row.replaced_keys]
        )
        kind = row.type.replace("|", "\\|")
        cells = (f"`{row.name}`", f"`{kind}`", default, keys, _yes(row.templated), _yes(row.secret), row.doc)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _yes(flag: bool) -> str:
    """A flag for a table: yes, or nothing."""
    return "yes" if flag else ""


def write(docs: Path, dags: Path) -> None:
    """Write the pages anew."""
    (docs / "operators").mkdir(exist_ok=True)
    for name, text in pages(dags).items():
        (docs / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
