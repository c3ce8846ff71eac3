"""Generator of the pages of the messages between Airflow and Spark: job specs and reports.

Both are generated from the JSON schemas of their pydantic models, so that they cannot be out of date.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from airflow_pushdown.exceptions import exception_for
from pushdown_spark.contract import ConjunctReport, ErrorCode, Exactness, JobError, JobResult, JobSpec, SourceReport
from pushdown_spark.contract.message_schema import message_schema

JsonSchema = Mapping[str, object]

_CONTRACT = "pushdown_spark/contract"
_REFERENCE = "#/$defs/"
_BOUNDS = {"minimum": "at least", "exclusiveMinimum": "greater than", "maximum": "at most"}
"""The words for the bounds of a number, by their keys in a JSON schema."""
_SAMPLE = JobResult(
    rows=393,
    output="s3a://marts/needle",
    seconds=8.7,
    sources={
        "source": SourceReport(
            reader="pushdown",
            reason="requested with reader='pushdown'",
            conjuncts=(
                ConjunctReport(
                    sql="tailnum = 'N328AA'", exactness=Exactness.INEXACT, pushed_as="byte pattern tailnum: N328AA"
                ),
            ),
            columns=("month", "day", "tailnum"),
            files_total=24,
            files_read=24,
            bytes_total=132_853_432,
            bytes_read=132_853_432,
            rows_decoded=393,
            rows_returned=393,
        )
    },
)


def generated_from(origin: str) -> str:
    """Return a comment for authors that names where a page comes from. Readers do not see it."""
    return f"<!-- `make docs` generates this page from {origin}. -->"


def message_pages() -> dict[str, str]:
    """Return the pages, and the JSON schema of job specs, by their paths in `docs/`."""
    schema = json.dumps(message_schema(JobSpec), indent=2) + "\n"
    return {"job-spec.md": _job_spec(), "job-spec.schema.json": schema, "report.md": _report()}


def _job_spec() -> str:
    lines = [
        "# Job spec",
        "",
        generated_from(_CONTRACT),
        "",
        "A job spec is a JSON document with named sources, one query and an output. The operators build one for each",
        "task. [The command `pushdown`](pyspark.md#from-the-command-line) runs one that you wrote. Editors can check",
        "it with its [JSON schema](job-spec.schema.json).",
        "",
        "An unknown key is an error. A path without a scheme is relative to Spark's default file system. The guide to",
        "the command line has [an example](pyspark.md#from-the-command-line).",
        "",
        *_tables(message_schema(JobSpec)),
    ]
    return "\n".join(lines)


def _report() -> str:
    lines = [
        "# Report",
        "",
        generated_from(_CONTRACT),
        "",
        "A task returns this report as its XCom value. Other tasks [use it](pipelines.md#results-downstream). People",
        "read it on the [report page](report-page.md). `pushdown run` writes the same document if the spec has a",
        "`result_path`. In the XCom value, each source also has the lists `pushed` and `residual`: the conjuncts that",
        "were pushed down, and those that Spark evaluates, as SQL.",
        "",
        "This is a part of the report of a scan:",
        "",
        "```json",
        _SAMPLE.model_dump_json(indent=2, exclude_defaults=True),
        "```",
        "",
        *_tables(message_schema(JobResult, "serialization")),
        "## Exceptions of error codes",
        "",
        "[Troubleshooting](troubleshooting.md#the-task-fails) says what to do about each exception.",
        "",
        "| Code | Exception | Retried |",
        "|---|---|---|",
        *map(_exception_row, ErrorCode),
        "",
    ]
    return "\n".join(lines)


def _exception_row(code: ErrorCode) -> str:
    """Return the line of an error code in the table of exceptions."""
    error = exception_for(JobError(code=code, message="", retryable=code.retryable))
    return f"| `{code}` | `{type(error).__name__}` | {'yes' if code.retryable else 'no'} |"


def _tables(schema: JsonSchema) -> Iterator[str]:
    """Yield a section for the message and for each of its parts, in the order in which the sections refer to them."""
    definitions = schema["$defs"]
    assert isinstance(definitions, Mapping)
    yield from _section(str(schema["title"]), schema)
    names = _references({key: value for key, value in schema.items() if key != "$defs"})
    for name in names:  # The loop also visits the names that it appends.
        yield from _section(name, definitions[name])
        names += [part for part in _references(definitions[name]) if part not in names]


def _references(schema: JsonSchema) -> list[str]:
    """Return the names of the definitions that a schema refers to, each once."""
    return list(dict.fromkeys(re.findall(rf'"{re.escape(_REFERENCE)}(\w+)"', json.dumps(schema))))


def _section(title: str, schema: JsonSchema) -> Iterator[str]:
    """Yield the heading, the description and the table of a message, or the values of an enumeration."""
    yield from (f"## {title}", "")
    if "description" in schema:
        yield from (str(schema["description"]), "")
    if "enum" in schema:
        yield from (f"Values: {_values(schema)}.", "")
        return
    fields = schema.get("properties", {})
    required = schema.get("required", [])
    assert isinstance(fields, Mapping)
    assert isinstance(required, list)
    if fields:
        yield from ("| Key | Type | Default | Meaning |", "|---|---|---|---|")
        # A message inherits keys, which come before its own. Readers look for the required ones first.
        for name, field in sorted(fields.items(), key=lambda item: item[0] not in required):
            default = "required" if name in required else _default(field)
            yield f"| `{name}` | {_type(field)} | {default} | {field.get('description', '')} |"
        yield ""


def _default(field: JsonSchema) -> str:
    """Return the default of a field: JSON, or nothing for an empty or missing value."""
    default = field.get("default")
    return "" if default in (None, [], {}) or isinstance(default, dict) else f"`{json.dumps(default)}`"


def _type(field: JsonSchema) -> str:
    """Return the type of a field in words, with links to the sections of other messages."""
    if reference := field.get("$ref"):
        name = str(reference).removeprefix(_REFERENCE)
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if options := field.get(key):
            assert isinstance(options, list)
            return " or ".join(_type(option) for option in options if option.get("type") != "null")
    if "const" in field or "enum" in field:
        return _values(field)
    kind = field.get("type")
    if kind == "array":
        return f"list of {_element(field.get('items', field.get('prefixItems')))}"
    if kind == "object":
        return f"map of strings to {_element(field.get('additionalProperties'))}"
    form = f" ({field['format']})" if "format" in field else ""
    bounds = "".join(f", {words} {field[key]}" for key, words in _BOUNDS.items() if key in field)
    return f"{kind or 'any value'}{form}{bounds}"


def _element(element: object) -> str:
    """Return the type of the elements of a list or a map."""
    if isinstance(element, list):
        return " and ".join(_type(item) for item in element)
    return _type(element) if isinstance(element, Mapping) else "any value"


def _values(field: JsonSchema) -> str:
    """Return the values of an enumeration."""
    values = field.get("enum", [field.get("const")])
    assert isinstance(values, list)
    return ", ".join(f"`{value}`" for value in values)
