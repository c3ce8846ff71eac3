"""Hooks that submit a job, kill it, collect its result and turn Airflow connections into secrets for it."""
