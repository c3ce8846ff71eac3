"""Predicates: parsed once, bound to a schema once, and evaluated by visitors over the bound tree.

`parser` makes a syntax tree of Spark SQL. `binder` resolves columns and gives every constant its column's type, which
makes a bound tree (`bound`). `arrow_evaluator`, `statistics_evaluator` and `byte_patterns` are visitors over that tree.
Python workers import the bound tree and its visitors, which need neither Spark nor the parser.
"""
