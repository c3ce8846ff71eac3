"""Additions to Airflow's web pages: links of a task, and the report page."""
