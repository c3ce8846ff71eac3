"""The environment variables of the job's processes."""

from __future__ import annotations

from airflow_pushdown.spark_submit.environment import child_environment
from airflow_pushdown.spark_submit.spark_installation import SparkInstallation

LOCAL = SparkInstallation(binary="/env/bin/spark-submit", python="/env/bin/python", home=None)


def test_airflow_variables_and_secrets_are_not_passed_to_the_job() -> None:
    environ = {
        "AIRFLOW_CONN_SHOP": "postgres://u:p@h",
        "AIRFLOW__CORE__FERNET_KEY": "k",
        "AIRFLOW_VAR_X": "v",
        "AIRFLOW_HOME": "/home",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_ACCESS_KEY_ID": "a",
        "AZURE_STORAGE_ACCOUNT_KEY": "a",
        "GITHUB_TOKEN": "t",
        "DB_PASSWORD": "p",
        "DATABASE": "mysql://root:pw@host/db",
        "INNOCENT": "holds the-hidden-value inside",
        "PATH": "/bin",
        "LANG": "C.UTF-8",
        "PROXY": "http://host:3128",
    }
    child = child_environment(environ, LOCAL, extra={}, secrets=["the-hidden-value", ""])
    assert child == {
        "PATH": "/bin",
        "LANG": "C.UTF-8",
        "PROXY": "http://host:3128",
        "PYSPARK_PYTHON": "/env/bin/python",
        "PYSPARK_DRIVER_PYTHON": "/env/bin/python",
    }


def test_the_locations_of_credentials_are_passed_to_the_job() -> None:
    environ = {
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/secrets/eks.amazonaws.com/serviceaccount/token",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials/42",
        "GOOGLE_APPLICATION_CREDENTIALS": "/keys/key.json",
        "AZURE_FEDERATED_TOKEN_FILE": "/var/run/secrets/azure/tokens/azure-identity-token",
    }
    child = child_environment({**environ, "TOKEN_URI": "https://user:pw@host/"}, LOCAL, extra={})
    assert child.items() >= environ.items()
    assert "TOKEN_URI" not in child


def test_variables_of_the_user_are_passed_unchanged() -> None:
    child = child_environment({}, LOCAL, extra={"MY_TOKEN": "given", "PYSPARK_PYTHON": "/on/executors/python"})
    assert child["MY_TOKEN"] == "given"
    assert child["PYSPARK_PYTHON"] == "/on/executors/python"
    assert child["PYSPARK_DRIVER_PYTHON"] == "/env/bin/python"


def test_an_inherited_home_does_not_redirect_the_chosen_installation() -> None:
    assert "SPARK_HOME" not in child_environment({"SPARK_HOME": "/other"}, LOCAL, extra={})
    named = SparkInstallation(binary="/spark/bin/spark-submit", python=None, home="/spark")
    assert child_environment({"SPARK_HOME": "/other"}, named, extra={})["SPARK_HOME"] == "/spark"
