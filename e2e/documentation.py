"""What the documentation says, for checks that do it: the DAGs of its examples, and its table of wrong inputs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from e2e import ROOT

DOCS = ROOT / "docs"
BLOCK = re.compile(r'^ *```(\w*)(?: title="([^"]*)")?\n(.*?)^ *```$', re.MULTILINE | re.DOTALL)
"""A code block: its language, its title and its content."""
_WEB_SERVER = "Web server"
"""The title of a command that runs until it is stopped."""
DATA = "/data"
"""The directory of the data in examples."""
FIRST_DATA = "/tmp/pushdown"  # noqa: S108 - a directory that a new user can create
"""The directory of the data of the first DAG."""

_DAG = re.compile(r'^with DAG\(\s*"(?P<dag_id>\w+)"', re.MULTILINE)
_ROW = re.compile(
    r"^\| `(?P<code>.+?)` \| (?P<when>DAG parse|task start|job) \| (?P<fence>`+) ?(?P<line>.+?) ?(?P=fence) \|$",
    re.MULTILINE,
)
_OPERATOR = re.compile(r"(?P<name>[A-Z]\w*Operator)\((?P<changed>.*)\)")
BASES: dict[str, dict[str, object]] = {
    "PushdownScanOperator": {
        "path": f"{DATA}/events",
        "format": "json",
        "schema": "id bigint, kind string, tags array<string>",
    },
    "PushdownMultiScanOperator": {"scans": {"events": {"path": f"{DATA}/events", "format": "json"}}},
    "LazyOrcScanOperator": {"path": f"{DATA}/events"},
    "RemoteScanOperator": {"source_conn_id": "shop"},
    "PushdownJoinOperator": {
        "sources": {"events": {"path": f"{DATA}/events", "format": "json"}},
        "query": "SELECT id FROM events",
    },
}
"""The parameters that the inputs in the table change."""
_DAG_FILE = """
from datetime import datetime

from airflow.sdk import DAG

from airflow_pushdown import operators

with DAG({dag_id!r}, schedule=None, start_date=datetime(2026, 1, 1){settings}):
    {tasks}
"""


class Block(NamedTuple):
    """A code block without the indentation of a list item. The title is empty if there is none."""

    language: str
    title: str
    code: str

    @property
    def is_file(self) -> bool:
        """Whether the title is a file name."""
        return "." in self.title

    @property
    def commands(self) -> list[str]:
        """The commands after the prompt. A command ends where its line does not end with a backslash."""
        lines = re.sub(r"\\\n\s*", "", self.code).splitlines()
        return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def all_blocks(page: Path, before: str | None = None) -> Iterator[Block]:
    """Yield the code blocks of a page, or only those before a heading."""
    text = page.read_text(encoding="utf-8")
    for language, title, code in BLOCK.findall(text.partition(before)[0] if before else text):
        indent = len(code) - len(code.lstrip(" "))
        yield Block(language, title, re.sub(rf"^ {{{indent}}}", "", code, flags=re.MULTILINE))


def blocks(page: Path, language: str) -> Iterator[str]:
    """Yield the code blocks of a language."""
    return (block.code for block in all_blocks(page) if block.language == language)


@dataclass(frozen=True)
class WrongInput:
    """A row of the table: the changed parameters, when the error shows, and its line."""

    code: str
    when: str
    line: str

    @property
    def operator(self) -> str:
        """The operator of the input, by default the one of the page's example."""
        match = _OPERATOR.fullmatch(self.code)
        return match["name"] if match else "PushdownScanOperator"

    @property
    def changed(self) -> str:
        """The changed parameters as Python code, as in the parentheses of a call."""
        match = _OPERATOR.fullmatch(self.code)
        return match["changed"] if match else self.code

    def task(self, task_id: str, data: Path = Path(DATA)) -> str:
        """Return the code of a task with this input, whose data is in a directory."""
        code = (
            f"operators.{self.operator}(task_id={task_id!r}, **{{**{BASES[self.operator]!r}, **dict({self.changed})}})"
        )
        return code.replace(f"{DATA}/", f"{data}/")

    def dag_file(self, dag_id: str) -> str:
        """Return a DAG file with this input."""
        return _DAG_FILE.format(dag_id=dag_id, settings="", tasks=self.task("scan"))


def wrong_inputs(when: str | None = None) -> list[WrongInput]:
    """Return the rows of the table in docs/wrong-inputs.md, or those of one time."""
    text = (DOCS / "wrong-inputs.md").read_text(encoding="utf-8")
    rows = [WrongInput(row["code"], row["when"], row["line"]) for row in _ROW.finditer(text)]
    return [row for row in rows if when in (None, row.when)]


def failing_dag(dag_id: str, inputs: Sequence[WrongInput], data: Path) -> str:
    """Return a DAG file with a task for each input. The tasks are not retried."""
    tasks = "\n    ".join(wrong.task(f"wrong_{number}", data) for number, wrong in enumerate(inputs))
    return _DAG_FILE.format(dag_id=dag_id, settings=", default_args={'retries': 0}", tasks=tasks)


def first_steps() -> tuple[list[str], dict[str, str]]:
    """Return the commands of a new user from the installation to the first report, and the DAG files by their names."""
    steps = [*all_blocks(DOCS / "install.md"), *all_blocks(DOCS / "get-started.md", before="## A five-minute tour")]
    shells = [block for block in steps if block.language == "console" and block.title != _WEB_SERVER]
    commands = [command for block in shells for command in block.commands]
    return commands, {block.title: block.code for block in steps if block.is_file}


def cluster_steps() -> tuple[list[str], str]:
    """Return the commands that prepare a cluster, and the arguments of the task that sends its environment."""
    steps = [*all_blocks(DOCS / "deployment.md"), *all_blocks(DOCS / "task-start.md")]
    commands = [
        command for block in steps if block.title in ("Cluster", "Airflow worker") for command in block.commands
    ]
    (task,) = (block.code for block in steps if block.language == "python" and "archives=" in block.code)
    return commands, task.partition("...,\n")[2].rpartition(")")[0]


def dockerfile() -> str:
    """Return the image of the install page."""
    (text,) = blocks(DOCS / "install.md", "dockerfile")
    return text


def dag_examples() -> dict[str, str]:
    """Return the examples in the documentation that are whole DAG files, by the id of the DAG."""
    codes = [code for page in sorted(DOCS.rglob("*.md")) for code in blocks(page, "python")]
    return {match["dag_id"]: code for code in codes for match in _DAG.finditer(code)}
