"""The examples in the docstrings of the Spark side are correct."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import pushdown_spark

FINDER = doctest.DocTestFinder(exclude_empty=True)


def examples() -> list[doctest.DocTest]:
    modules = (each.name for each in pkgutil.walk_packages(pushdown_spark.__path__, "pushdown_spark."))
    return [
        actual
        for name in modules
        for actual in FINDER.find(importlib.import_module(name))
        if any(doctest.SKIP not in example.options for example in actual.examples)
    ]


EXAMPLES = examples()


@pytest.mark.parametrize("example", EXAMPLES, ids=[each.name for each in EXAMPLES])
def test_docstring_examples_have_the_shown_output(example: doctest.DocTest) -> None:
    assert doctest.DocTestRunner().run(example).failed == 0
