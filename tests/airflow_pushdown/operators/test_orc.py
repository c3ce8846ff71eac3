"""The ORC operator up to its job spec: options and rejected parameters. Nothing is submitted."""

from __future__ import annotations

import pytest
from refusals import refusal

from airflow_pushdown.exceptions import ConfigError
from airflow_pushdown.operators import LazyOrcScanOperator, PushdownScanOperator
from airflow_pushdown.operators.base_operator import PushdownBaseOperator
from airflow_pushdown.version_compat import AirflowFailException
from pushdown_spark.contract import ErrorCode, JobSpec, OrcOptions, ReaderChoice, SourceFormat, SourceSpec

SARG_TO_FILTER = "spark.hadoop.orc.sarg.to.filter"
USE_SELECTED = "spark.hadoop.orc.filter.use.selected"


def spec(**parameters: object) -> JobSpec:
    return LazyOrcScanOperator(task_id="scan", **{"path": "/data/*.orc", **parameters}).build_spec("d/t/r/-1")


def source(**parameters: object) -> SourceSpec:
    return spec(**parameters).sources["source"]


def test_the_parameters_become_the_job() -> None:
    job = spec(
        path=["/a", "/b"],
        schema="a int, b string",
        options={"mergeSchema": True},
        columns=["a", "filename"],
        where="a > 1",
        limit=10,
        filter_pushdown=True,
        reader="pushdown",
        sarg_to_filter=True,
        use_selected=True,
        partial_reads=2,
        min_seek_size=4096,
        output="/out",
        output_mode="overwrite",
    )
    assert job.sources["source"] == SourceSpec(
        format=SourceFormat.ORC,
        path=("/a", "/b"),
        schema_ddl="a int, b string",
        options={"mergeSchema": "true"},
        reader=ReaderChoice.PUSHDOWN,
        orc=OrcOptions(sarg_to_filter=True, use_selected=True, partial_reads=2, min_seek_size=4096),
    )
    assert (job.query.columns, job.query.where, job.query.limit) == (("a", "filename"), "a > 1", 10)
    assert job.output is not None
    assert job.output.path == "/out"
    assert job.conf["spark.sql.orc.filterPushdown"] == "true"


def test_a_scan_without_options_sets_no_reader_options() -> None:
    job = spec()
    assert job.sources["source"].orc == OrcOptions()
    assert job.sources["source"].reader is ReaderChoice.AUTO
    assert job.sources["source"].filter_pushdown is True
    assert job.output is None
    assert [key for key in job.conf if "hadoop" in key] == []


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (False, "false")])
def test_sarg_to_filter_reaches_both_readers(value: bool, text: str) -> None:
    job = spec(sarg_to_filter=value)
    assert job.conf[SARG_TO_FILTER] == text
    assert job.sources["source"].orc.sarg_to_filter is value


@pytest.mark.parametrize("reader", ["pushdown", "auto", "spark"])
def test_use_selected_is_never_set_for_spark(reader: str) -> None:
    assert USE_SELECTED not in spec(reader=reader, use_selected=reader == "pushdown").conf


@pytest.mark.parametrize(("value", "number"), [("auto", None), (0, 0), (3, 3), ("0", 0), ("7", 7)])
def test_partial_reads_is_an_integer_or_unset(value: object, number: int | None) -> None:
    assert source(partial_reads=value).orc.partial_reads == number


def test_rendered_template_strings_are_converted() -> None:
    orc = source(
        reader="pushdown", sarg_to_filter="False", use_selected="true", partial_reads="1", min_seek_size="0"
    ).orc
    assert orc == OrcOptions(sarg_to_filter=False, use_selected=True, partial_reads=1, min_seek_size=0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sarg_to_filter": "perhaps"}, "sarg_to_filter: "),
        ({"use_selected": "perhaps"}, "use_selected: "),
        ({"use_selected": None}, "use_selected: "),
        ({"partial_reads": -1}, "partial_reads: give a number of reads, 0 or more, or 'auto' (got -1)"),
        ({"partial_reads": "many"}, "partial_reads: give a number of reads, 0 or more, or 'auto' (got 'many')"),
        ({"partial_reads": None}, "partial_reads: "),
        ({"min_seek_size": -1}, "min_seek_size: "),
        ({"min_seek_size": "16 KB"}, "min_seek_size: "),
        ({"min_seek_size": None}, "min_seek_size: "),
    ],
)
def test_a_wrong_parameter_is_one_line_that_names_it(parameters: dict[str, object], message: str) -> None:
    assert str(refusal(spec, **parameters)).startswith(message)


def test_the_format_cannot_be_chosen() -> None:
    with pytest.raises(TypeError, match="format"):
        LazyOrcScanOperator(task_id="scan", path="/x", format="orc")


@pytest.mark.parametrize("reader", ["auto", "spark"])
def test_use_selected_raises_unless_the_reader_is_pushdown(reader: str) -> None:
    error = refusal(spec, use_selected=True, reader=reader)
    assert isinstance(error, AirflowFailException)
    assert str(error).startswith(f"use_selected=True needs reader='pushdown', not '{reader}'")
    assert "Spark 4.3.0" in str(error)
    assert "returns no rows" in str(error)


SCANS = [
    (LazyOrcScanOperator, {"reader": "auto"}),
    (LazyOrcScanOperator, {"reader": "spark"}),
    # Ours hands over to Spark's reader where it cannot read.
    (LazyOrcScanOperator, {"reader": "pushdown", "use_selected": True}),
    (PushdownScanOperator, {"format": "orc"}),
]


@pytest.mark.parametrize(("operator", "parameters"), SCANS)
@pytest.mark.parametrize(
    ("place", "entries"),
    [
        ("conf", {USE_SELECTED: " True "}),
        ("conf", {USE_SELECTED: True}),
        ("options", {"orc.filter.use.selected": "TRUE"}),
        ("options", {"ORC.Filter.Use.Selected": True}),
    ],
)
def test_a_setting_with_which_spark_loses_rows_raises(
    operator: type[PushdownBaseOperator], parameters: dict[str, object], place: str, entries: dict[str, object]
) -> None:
    with pytest.raises(ConfigError, match="returns no rows") as error:
        operator(task_id="scan", path="/x", **{place: entries}, **parameters)
    assert error.value.code is ErrorCode.UNSAFE_SETTING
    (key,) = entries
    assert str(error.value).startswith(f"{place}: {key}=")


def test_the_setting_is_allowed_if_it_is_false() -> None:
    assert spec(conf={USE_SELECTED: False}, options={"orc.filter.use.selected": "false"})


def test_the_setting_is_allowed_for_other_formats() -> None:
    task = PushdownScanOperator(task_id="scan", path="/x", format="json", conf={USE_SELECTED: "true"})
    assert task.build_spec("k")


@pytest.mark.parametrize(
    ("parameters", "parameter", "entry"),
    [
        ({"sarg_to_filter": True, "conf": {SARG_TO_FILTER: False}}, "sarg_to_filter=True", f"{SARG_TO_FILTER}=false"),
        ({"sarg_to_filter": False, "conf": {SARG_TO_FILTER: "TRUE"}}, "sarg_to_filter=False", f"{SARG_TO_FILTER}=TRUE"),
        (
            {"use_selected": True, "reader": "pushdown", "conf": {USE_SELECTED: "false"}},
            "use_selected=True",
            f"{USE_SELECTED}=false",
        ),
        (
            {"filter_pushdown": False, "conf": {"spark.sql.orc.filterPushdown": "true"}},
            "filter_pushdown=False",
            "spark.sql.orc.filterPushdown=true",
        ),
    ],
)
def test_a_contradiction_names_both_sides(parameters: dict[str, object], parameter: str, entry: str) -> None:
    assert f"{parameter} contradicts conf entry {entry}" in str(refusal(spec, **parameters))


@pytest.mark.parametrize(("text", "value"), [("true", True), ("False", False)])
def test_a_conf_entry_replaces_the_default_for_both_readers(text: str, value: bool) -> None:
    job = spec(conf={SARG_TO_FILTER: text})
    assert job.sources["source"].orc.sarg_to_filter is value
    assert job.conf[SARG_TO_FILTER] == text


def test_a_conf_entry_also_sets_sarg_to_filter_of_the_plain_scan() -> None:
    task = PushdownScanOperator(task_id="scan", path="/x", format="orc", conf={SARG_TO_FILTER: "false"})
    assert task.build_spec("k").sources["source"].orc == OrcOptions(sarg_to_filter=False)


def test_templates_are_rendered_in_the_orc_switches() -> None:
    task = LazyOrcScanOperator(
        task_id="scan",
        path="/in/{{ ds }}",
        sarg_to_filter="{{ yes }}",
        use_selected="{{ yes }}",
        partial_reads="{{ n }}",
        min_seek_size="{{ n }}",
        reader="{{ r }}",
    )
    context = {"ds": "2026-01-02", "yes": True, "n": 4, "r": "pushdown", "ti": {"dag_id": "d", "task_id": "scan"}}
    task.render_template_fields(context)  # type: ignore[arg-type]
    rendered = task.build_spec("k").sources["source"]
    assert rendered.path == ("/in/2026-01-02",)
    assert rendered.orc == OrcOptions(sarg_to_filter=True, use_selected=True, partial_reads=4, min_seek_size=4)
