"""Advice from the report of a run: changes of the files or the predicate that let the next run read less."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from pushdown_spark.contract import ConjunctReport, Exactness, SourceReport
from pushdown_spark.contract.report_text import human_bytes
from pushdown_spark.expressions.conjuncts import nodes_of
from pushdown_spark.expressions.predicate import Predicate

_MANY_FILES = 50
"""The number of files from which their sizes matter."""
_SMALL_FILE = 256 << 10
"""The average size in bytes below which footers are a large part of a file."""
_MANY_GROUPS = 10
"""The number of row groups from which pruning can pay."""
_FEW_ROWS = 0.05
"""Sorting helps if at most this fraction of the decoded rows matches."""
_COMPARISONS = (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between)
_STRING_FUNCTIONS = (exp.Upper, exp.Lower, exp.Trim)


@dataclass(frozen=True)
class _Conjunct:
    """A conjunct of the predicate, and what the report has about it."""

    tree: exp.Expr
    report: ConjunctReport

    def compared_column(self, kinds: tuple[type[exp.Expr], ...] = _COMPARISONS) -> str | None:
        """Return the column that a pushed conjunct compares with constants, None for any other conjunct."""
        tree = self.tree
        if self.report.exactness is Exactness.UNSUPPORTED or not isinstance(tree, kinds):
            return None
        is_only_column = isinstance(tree.this, exp.Column) and len(list(nodes_of(tree, exp.Column))) == 1
        return tree.this.name if is_only_column else None


def with_advice(report: SourceReport, predicate: Predicate | None) -> SourceReport:
    """Return the report of a run with this predicate, with advice if there is any."""
    trees = {} if predicate is None else dict(zip(predicate.conjunct_texts, predicate.conjuncts, strict=False))
    conjuncts = [_Conjunct(trees[entry.sql], entry) for entry in report.conjuncts if entry.sql in trees]
    advice = (*_pattern_advice(report, conjuncts), *_pruning_advice(report, conjuncts), *_file_advice(report))
    return report.model_copy(update={"advice": advice})


def _file_advice(report: SourceReport) -> Iterator[str]:
    """Yield advice if files are so small that most of the bytes read are footers."""
    footers = report.bytes_by_purpose.get("metadata", 0)
    if report.files_total < _MANY_FILES or report.bytes_total > report.files_total * _SMALL_FILE:
        return
    if report.bytes_read and footers > report.bytes_read / 2:
        bytes_read = human_bytes(report.bytes_read)
        yield (
            f"Write fewer, larger files: {human_bytes(footers)} of the {bytes_read} that were read are the metadata of "
            f"{report.files_total:,} files."
        )


def _pattern_advice(report: SourceReport, conjuncts: Sequence[_Conjunct]) -> Iterator[str]:
    """Yield advice for conjuncts over lines that skip no rows because of a function."""
    if not report.files_total or report.units or any(conjunct.pushed_as for conjunct in report.conjuncts):
        return
    for conjunct in conjuncts:
        tree = conjunct.tree
        if not isinstance(tree, exp.EQ) or not isinstance(tree.expression, exp.Literal):
            continue
        if isinstance(tree.this, _STRING_FUNCTIONS) and isinstance(tree.this.this, exp.Column):
            column, value = tree.this.this.sql("spark"), tree.expression.sql("spark")
            yield (
                f"No rows were skipped by {conjunct.report.sql}, which compares a function of a column. If the files "
                f"have one spelling, compare the column itself: {column} = {value}."
            )


def _pruning_advice(report: SourceReport, conjuncts: Sequence[_Conjunct]) -> Iterator[str]:
    """Yield advice if statistics and bloom filters of row groups pruned little, although few rows match."""
    groups = report.units.get("row groups", {})
    columns = [name for conjunct in conjuncts if (name := conjunct.compared_column())]
    matching_rows = report.rows_after_pushdown
    if not columns or not groups or matching_rows is None or not report.rows_decoded:
        return
    if max(outcomes.get("total", 0) for outcomes in report.units.values()) < _MANY_GROUPS:
        return
    if matching_rows <= _FEW_ROWS * report.rows_decoded and not any(map(_prunes, report.units.values())):
        pruned_groups = sum(count for outcome, count in groups.items() if outcome.startswith("pruned"))
        yield (
            f"Sort the rows by {columns[0]} before you write the files, so that statistics prune row groups: "
            f"{pruned_groups:,} of {groups.get('total', 0):,} were pruned, and {matching_rows:,} of "
            f"{report.rows_decoded:,} decoded rows match."
        )
    searched_groups = groups.get("filter columns read", 0)
    equality_columns = [name for conjunct in conjuncts if (name := conjunct.compared_column((exp.EQ, exp.In)))]
    if (
        equality_columns
        and searched_groups >= _MANY_GROUPS
        and matching_rows <= searched_groups / 2
        and not groups.get("pruned by bloom filter")
    ):
        column = equality_columns[0]
        yield (
            f"Write the ORC files with a bloom filter on {column} (orc.bloom.filter.columns={column}): "
            f"{searched_groups:,} row groups were searched for {matching_rows:,} rows."
        )


def _prunes(outcomes: Mapping[str, int]) -> bool:
    """Return whether at least half of the units of a kind were pruned."""
    pruned_units = sum(count for outcome, count in outcomes.items() if outcome.startswith("pruned"))
    return pruned_units > 0 and 2 * pruned_units >= outcomes.get("total", 0)
