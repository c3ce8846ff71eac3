"""Generator of the reference pages in `docs/`: operators, common parameters, job specs and reports.

`python -m docs_pages.generate docs` writes them.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_pushdown import operators
from airflow_pushdown.clusters.kubernetes import KubernetesDrivers
from airflow_pushdown.clusters.standalone import StandaloneDrivers
from airflow_pushdown.clusters.yarn import YarnDrivers
from airflow_pushdown.parameters import (
    JOIN,
    LAZY_ORC,
    MULTI_SCAN,
    PARAMETERS,
    REMOTE,
    SCAN,
    SOURCE_FORMATS,
    Parameter,
    parameters_of,
)
from airflow_pushdown.spark_settings import FIXED_SETTINGS, SUBMIT_DEFAULTS, UNSAFE_SETTINGS
from docs_pages.messages import generated_from, message_pages


@dataclass(frozen=True)
class _OperatorPage:
    """The page of one operator: its file, the guide with its example, an example DAG, and links with their titles."""

    file: str
    guide: str
    dag: str
    links: Mapping[str, str]


_INTERVALS = (
    f"{StandaloneDrivers.min_interval:.0f} s on a standalone cluster, {YarnDrivers.min_interval:.0f} s on "
    f"YARN and {KubernetesDrivers.min_interval:.0f} s on Kubernetes"
)
_DIFFERENT = {
    "conn_id": "The Spark connection. A missing one is an error.",
    "archives": "Archives that Spark unpacks in the working directories of driver and executors, such as a packed "
    "Python environment, separated by commas.",
    "status_poll_interval": "Seconds between two requests for the status of a driver on a cluster, at least "
    f"{_INTERVALS}. See [how a task waits](drivers.md#how-a-task-waits).",
    "env_vars": "Environment variables of spark-submit, and on YARN and Kubernetes also of the driver. A standalone "
    "cluster has no such variables in deploy mode `cluster`.",
    "track_driver_via_k8s_api": "Whether spark-submit ends when the driver pod exists, and the task polls the API of "
    "Kubernetes at `status_poll_interval`. `deferrable=True` sets it.",
    "yarn_track_via_rm_api": "Whether spark-submit ends when YARN has accepted the application, and the task polls the "
    "ResourceManager at `status_poll_interval`. It is set if `durable` or `deferrable` is, and if the address of the "
    "ResourceManager is known: from the extra `yarn_resourcemanager_webapp_address` of the connection, or from "
    "`yarn-site.xml`.",
    "durable": "Whether a retry continues with a driver of an earlier try that still runs, or reads its result "
    "(Airflow 3.3). The default is `True`. `False` ends the earlier driver and submits another one. See "
    "[retries](drivers.md#retries-continue-with-the-driver).",
    "openlineage_inject_parent_job_info": "Whether the runs of Spark's OpenLineage listener refer to the task. The "
    "default is Airflow's setting `[openlineage] spark_inject_parent_job_info`. See "
    "[OpenLineage](metrics.md#openlineage).",
    "openlineage_inject_transport_info": "Whether Spark's OpenLineage listener gets Airflow's transport. The default "
    "is Airflow's setting `[openlineage] spark_inject_transport_info`. See [OpenLineage](metrics.md#openlineage).",
}
"""Descriptions of parameters of `SparkSubmitOperator` that the operators treat in another way than their provider, or
that the provider does not describe.
"""
_OWN_PROGRAM = ("application", "application_args", "java_class")
"""Parameters of `SparkSubmitOperator` that the operators set themselves."""
_TEMPLATED = " (templated)"
"""The mark in the description of a parameter that is a template field."""
_LINKS = {"../pushdown.md": "How pushdown works", "../projection.md": "Columns", "../output.md": "Writing files"}
_FILE_LINKS = {**_LINKS, "../object-stores.md": "Object stores", "../tables.md": "Tables of a catalog"}
_PAGES = {
    SCAN: _OperatorPage("scan.md", "index.md", "flights_scan.py", _FILE_LINKS),
    MULTI_SCAN: _OperatorPage(
        "multi-scan.md",
        "multi-scan.md",
        "flights_multi_scan.py",
        {"../multi-scan.md": "Several scans in one task", **_LINKS},
    ),
    LAZY_ORC: _OperatorPage("orc.md", "orc.md", "flights_orc.py", {"../orc.md": "Lazy ORC scans", **_FILE_LINKS}),
    REMOTE: _OperatorPage(
        "remote.md",
        "remote.md",
        "flights_remote.py",
        {
            "../remote.md": "Databases",
            "../remote-reference.md": "Predicates by database",
            "../output.md": "Writing files",
        },
    ),
    JOIN: _OperatorPage("join.md", "joins.md", "flights_join.py", {"../joins.md": "Joins", **_LINKS}),
}
_GROUPS = {
    "Source": "sources scans path table query format schema options source_conn_id",
    "Rows and columns": "columns where data_interval limit on_missing_column on_schema_conflict max_malformed "
    "implicit_names implicit_columns wide_numbers zero_dates_as_null",
    "Output": "output output_mode output_format output_options partition_by output_table output_conn_id replace_where "
    "merge_keys checks assets",
    "Job": "name spark_python spark_home exchange_dir exchange_conn_id deferrable class_archives",
}
"""The headings of the parameters and their names, in the order of a page."""
_OTHER_GROUP = "Reading"
"""The heading of all other parameters, before those of the output."""


def pages(docs: Path) -> dict[str, str]:
    """Return the pages by their paths in `docs`, the directory of the guides that have the examples."""
    return {"parameters.md": _common(), **message_pages()} | {
        f"operators/{page.file}": _operator(name, page, (docs / page.guide).read_text(encoding="utf-8"))
        for name, page in _PAGES.items()
    }


def _operator(name: str, page: _OperatorPage, guide: str) -> str:
    """Return the page of one operator: the docstring, the first example of its guide, and the parameters."""
    description = inspect.getdoc(getattr(operators, name)) or ""
    example = next(code for code in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if f"{name}(" in code)
    lines = [
        f"# {name}",
        "",
        generated_from("the operator, the parameter table and its guide"),
        "",
        description.partition(":param ")[0].strip(),
        "",
        "```python",
        example.rstrip(),
        "```",
        "",
        f"[dags/{page.dag}](../../dags/{page.dag}) is a runnable DAG.",
        "",
        f"See also: {', '.join(f'[{title}]({link})' for link, title in page.links.items())}.",
        "",
        "Every parameter below is templated unless its description says otherwise.",
        "[Common parameters](../parameters.md) has those of `SparkSubmitOperator`. Parameters of Airflow's",
        "`BaseOperator`, such as `retries` and `pool`, work as in any operator.",
        "",
        *_tables(name),
    ]
    return "\n".join(lines)


def _common() -> str:
    """Return the page of the parameters and settings that all operators have in common."""
    lines = [
        "# Common parameters",
        "",
        generated_from("airflow_pushdown/spark_settings.py and the parameters of SparkSubmitOperator"),
        "",
        "All operators accept the parameters of Airflow's `SparkSubmitOperator` on this page, with these exceptions:",
        "",
        "- `application`, `application_args` and `java_class` are errors, because operators submit their own program.",
        "- If the name of a `conf` entry suggests a credential, spark-submit reads its value from a private file, not",
        "  from the command line.",
        "- A `conf` entry wins over the default of a parameter that maps to the same key. If it contradicts a",
        "  parameter that you gave, Airflow shows an import error, or the task fails before it submits anything. The",
        "  error names both.",
        "",
        "The parameters of each operator are on its own page:",
        f"{', '.join(f'[{name}](operators/{page.file})' for name, page in _PAGES.items())}.",
        "",
        "## Parameters of SparkSubmitOperator",
        "",
        "Descriptions come from Airflow's Spark provider where the operators do the same. `None` uses the value of the",
        "connection, or Spark's own default. Parameters marked *(templated)* accept Jinja templates.",
        "",
        *_inherited_table(),
        "",
        "## Settings of every job",
        "",
        "| Spark key | Value | Reason |",
        "|---|---|---|",
        *(f"| `{s.key}` | `{s.value}` | {s.reason} |" for s in FIXED_SETTINGS),
        *(f"| `{key}` | `{value}` | default; `conf` can change it |" for key, value in SUBMIT_DEFAULTS.items()),
        "",
        "## Settings that are not allowed",
        "",
        "| Spark key, or reader option | Value | File format | Reason |",
        "|---|---|---|---|",
        *(f"| `{s.key}`, `{s.hadoop_key}` | `{s.value}` | {s.source_format} | {s.reason} |" for s in UNSAFE_SETTINGS),
        "",
    ]
    return "\n".join(lines)


def _tables(operator: str) -> list[str]:
    """Return the lines of the parameter tables of one operator, one table for each group."""
    descriptions = documented_parameters(getattr(operators, operator))
    by_name = {row.name: row for row in parameters_of(operator)}
    groups = {title: names.split() for title, names in _GROUPS.items()}
    names_in_groups = {name for names in groups.values() for name in names}
    source, rows, *rest = groups.items()
    lines: list[str] = []
    for title, names in (
        source,
        rows,
        (_OTHER_GROUP, [name for name in by_name if name not in names_in_groups]),
        *rest,
    ):
        group_rows = [by_name[name] for name in names if name in by_name]
        if group_rows:
            lines += [f"## {title}", "", "| Parameter | Type | Default | Description |", "|---|---|---|---|"]
            lines += [_row_of(row, operator, descriptions[row.name]) for row in group_rows]
            lines.append("")
    return lines


def _row_of(row: Parameter, operator: str, docstring: str) -> str:
    """Return the line of one parameter of an operator."""
    default = "required" if row.required else f"`{row.default!r}`"
    return _row(row.name, row.type, default, _description(row, operator, docstring))


def documented_parameters(operator: type) -> dict[str, str]:
    """Return the descriptions of the parameters from the docstrings of an operator and its base classes.

    Each class describes the parameters of its own constructor.
    """
    descriptions: dict[str, str] = {}
    for operator_class in reversed(operator.__mro__):
        if operator_class.__module__.startswith("airflow_pushdown."):
            text = " ".join((operator_class.__doc__ or "").split())
            descriptions.update(re.findall(r":param (\w+): (.*?)(?= :param |$)", text))
    return descriptions


def _description(row: Parameter, operator: str, docstring: str) -> str:
    """Return the description of a parameter, with its Spark keys and whether it is templated."""
    keys = [f"`{key}`" for key in row.spark_keys(SOURCE_FORMATS.get(operator))]
    never_set = [f"`{key}`" for key in row.replaced_keys]
    notes = [
        docstring.removesuffix(_TEMPLATED),
        f"Sets {', '.join(keys)}." if keys else "",
        f"Replaces {', '.join(never_set)}, which is never set." if never_set else "",
        "" if row.is_templated else "Not templated.",
    ]
    return " ".join(filter(None, notes))


def _row(name: str, kind: str, default: str, description: str) -> str:
    """Return a line of a parameter table."""
    text = kind.replace("|", "\\|")
    return f"| `{name}` | `{text}` | {default} | {description} |"


def _inherited_table() -> list[str]:
    """Return the lines of the table of the parameters that all operators inherit from `SparkSubmitOperator`."""
    text = inspect.getdoc(SparkSubmitOperator) or ""
    descriptions = dict(re.findall(r"^:param (\w+): (.*?)(?=^:param |\Z)", text, re.MULTILINE | re.DOTALL))
    plain_texts = {name: _plain(description) for name, description in descriptions.items()} | _DIFFERENT
    own = {row.name for row in PARAMETERS}
    lines = ["| Parameter | Type | Default | Description |", "|---|---|---|---|"]
    for name, parameter in inspect.signature(SparkSubmitOperator.__init__).parameters.items():
        if parameter.kind is not parameter.KEYWORD_ONLY or name in own or name in _OWN_PROGRAM:
            continue
        mark = _TEMPLATED if name in SparkSubmitOperator.template_fields else ""
        description = plain_texts.get(name, "").replace(_TEMPLATED, "") + mark
        lines.append(_row(name, str(parameter.annotation), f"`{parameter.default!r}`", description))
    return lines


def _plain(description: str) -> str:
    """Return a description of the provider as one line of Markdown."""
    without_roles = re.sub(r":\w+:`([^`<]*?)\s*(?:<[^>]*>)?`", r"\1", " ".join(description.split()))
    return without_roles.replace("``", "`").replace("|", "\\|")


def write(docs: Path) -> None:
    """Write all pages."""
    (docs / "operators").mkdir(exist_ok=True)
    for name, text in pages(docs).items():
        (docs / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
