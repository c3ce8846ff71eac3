"""How far a data source evaluates one conjunct of a predicate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from sqlglot import exp

from pushdown_spark.contract import ConjunctReport, Exactness

Artifact = TypeVar("Artifact")


@dataclass(frozen=True)
class Pushdown(Generic[Artifact]):
    """The outcome for one conjunct.

    `artifact` is what the source evaluates, such as a bound tree or a byte pattern; None where the conjunct is
    unsupported. `reason` explains why the outcome is not exact, so that Spark must evaluate the conjunct again.
    """

    exactness: Exactness
    conjunct: exp.Expr
    artifact: Artifact | None = None
    reason: str | None = None

    @classmethod
    def exact(cls, conjunct: exp.Expr, artifact: Artifact) -> Pushdown[Artifact]:
        """Return the outcome for a source that keeps exactly the rows that Spark keeps."""
        return cls(Exactness.EXACT, conjunct, artifact)

    @classmethod
    def inexact(cls, conjunct: exp.Expr, artifact: Artifact, reason: str) -> Pushdown[Artifact]:
        """Return the outcome for a source that keeps all rows that Spark keeps, and possibly others."""
        return cls(Exactness.INEXACT, conjunct, artifact, reason)

    @classmethod
    def unsupported(cls, conjunct: exp.Expr, reason: str) -> Pushdown[Artifact]:
        """Return the outcome for a source that cannot evaluate the conjunct."""
        return cls(Exactness.UNSUPPORTED, conjunct, None, reason)

    @property
    def is_exact(self) -> bool:
        """Whether Spark need not evaluate the conjunct again."""
        return self.exactness is Exactness.EXACT

    def report(self, pushed_as: str | None) -> ConjunctReport:
        """Return the report entry. `pushed_as` describes the artifact of a supported conjunct."""
        return ConjunctReport(
            sql=self.conjunct.sql(dialect="spark", copy=False),
            exactness=self.exactness,
            pushed_as=None if self.artifact is None else pushed_as,
            reason=self.reason,
        )
