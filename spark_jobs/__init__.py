"""Spark side of airflow_pushdown: the packaged PySpark job and the library it is made of."""
