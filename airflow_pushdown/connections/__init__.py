"""Airflow connections of sources and outputs, as jobs need them."""
