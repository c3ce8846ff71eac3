"""Private members of Airflow and its Spark provider. A new release may change them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperator

from airflow_pushdown.hooks.provider_hook import ProviderHook
from airflow_pushdown.hooks.submit import PushdownSubmitHook
from airflow_pushdown.operators import LazyOrcScanOperator
from airflow_pushdown.operators.job_operator import JobOperator
from airflow_pushdown.version_compat import is_from_mapped

Names = set[str]


def private_members(provider_object: object) -> Names:
    """Return the private names of an object of the provider."""
    return {name for name in dir(provider_object) if name.startswith("_") and not name.startswith("__")}


def uses(classes: Iterable[type]) -> Iterator[tuple[type, ast.AST, str]]:
    """Yield each private name that methods of classes define, or use on `self` or `super()`."""
    for cls in classes:
        for node in ast.walk(ast.parse(inspect.getsource(cls))):
            name = None
            if isinstance(node, ast.FunctionDef):
                name = node.name
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "super()"):
                name = node.attr
            if name is not None and name.startswith("_") and not name.startswith("__"):
                yield cls, node, name


def own_classes(cls: type) -> list[type]:
    """Return a class and its bases that belong to this package."""
    return [base for base in cls.__mro__ if base.__module__.startswith("airflow_pushdown.")]


@pytest.mark.usefixtures("local_spark")
def test_the_providers_hook_has_the_private_members_that_one_class_uses() -> None:
    members = private_members(SparkSubmitHook())
    assert {name for _, _, name in uses([ProviderHook])} - members == set()
    others = [cls for cls in own_classes(PushdownSubmitHook) if cls is not ProviderHook]
    assert len(others) == 3
    assert {(cls.__name__, name) for cls, _, name in uses(others) if name in members} == set()


def test_the_providers_operator_has_the_private_members_that_one_class_uses() -> None:
    members = private_members(SparkSubmitOperator(task_id="t", application="x"))
    others = [cls for cls in own_classes(LazyOrcScanOperator) if cls is not JobOperator]
    own = {
        name
        for _, node, name in uses(own_classes(LazyOrcScanOperator))
        if isinstance(node, ast.FunctionDef) or isinstance(getattr(node, "ctx", None), ast.Store)
    }
    assert {name for _, _, name in uses([JobOperator])} - members - own == set()
    # This class replaces them.
    assert {"_hook", "_get_hook"} <= members
    assert {(cls.__name__, name) for cls, _, name in uses(others) if name in members} == set()


def test_airflow_marks_the_operators_that_it_creates_from_mapped_ones() -> None:
    marks: list[bool] = []

    class Operator(BaseOperator):
        def __init__(self, *, x: int, **kwargs: object) -> None:
            marks.append(is_from_mapped(self))
            super().__init__(**kwargs)  # type: ignore[arg-type]

    mapped = Operator.partial(task_id="mapped").expand(x=[1])
    mapped.unmap({"x": 1})
    Operator(task_id="plain", x=1)
    assert marks == [True, False]
