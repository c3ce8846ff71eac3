"""The Spark side of airflow_pushdown: the job that a task submits, and the library that the job uses.

The entry point of the library is `pushdown_spark.session.PushdownSession`.
"""

__version__ = "0.1.0"
