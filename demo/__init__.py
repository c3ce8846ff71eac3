"""The demo: everything that `make demo` does before, around and after the Airflow run."""
