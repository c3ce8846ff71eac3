"""The Airflow side of airflow_pushdown: operators that describe a job, and hooks that submit it to Spark."""

__version__ = "0.1.0"
