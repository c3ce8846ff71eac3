# Two images: `docker build .` has all that the services need, `docker build --target kubernetes .` is the image of
# drivers and executors on Kubernetes. Airflow's environment is in /opt/airflow, Spark's in /opt/spark, this project in
# /opt/project. They are separate, because Airflow's Spark provider installs pyspark-client, which overwrites files of
# pyspark.
ARG PYTHON_IMAGE=python:3.11.13-slim-bookworm
FROM ${PYTHON_IMAGE} AS spark

# Java's package creates links in the directory of manual pages, which slim images lack.
RUN mkdir --parents /usr/share/man/man1 \
    && apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/project

# Requirements first, so that a change of the code does not rebuild the layers with the environments.
COPY requirements requirements
COPY spark_jobs/pushdown_spark/requirements.txt spark-requirements.txt
RUN python -m venv /opt/spark
RUN /opt/spark/bin/pip install --no-cache-dir --disable-pip-version-check \
        -r spark-requirements.txt -c requirements/constraints-spark.txt
ENV PYSPARK_PYTHON=/opt/spark/bin/python


FROM spark AS kubernetes

# The user id of Spark's own images.
RUN useradd --create-home --uid 185 spark \
    && ln --symbolic /opt/spark/lib/python3.*/site-packages/pyspark /opt/spark-home
COPY docker/kubernetes-entrypoint.sh /opt/entrypoint.sh
ENV PATH=/opt/spark/bin:/usr/local/bin:/usr/bin:/bin \
    SPARK_HOME=/opt/spark-home
USER 185
WORKDIR /home/spark
ENTRYPOINT ["/opt/entrypoint.sh"]


FROM spark AS services

# A fixed user id, so that volumes belong to the same user in every container.
RUN useradd --create-home --uid 50000 pushdown \
    && install --directory --owner pushdown /data /events /opt/airflow-home /opt/airflow-home/logs

RUN python -m venv /opt/airflow
RUN /opt/airflow/bin/pip install --no-cache-dir --disable-pip-version-check \
        -r requirements/airflow.txt -r requirements/e2e.txt -c requirements/constraints-airflow.txt
RUN /opt/spark/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps -r requirements/demo.txt

COPY pyproject.toml README.md ./
COPY airflow_pushdown airflow_pushdown
COPY spark_jobs spark_jobs
RUN /opt/airflow/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps ./spark_jobs .
COPY demo demo
COPY dags dags
COPY e2e e2e
COPY docker/*.sh docker/
COPY docker/spark /opt/spark-conf

ENV PATH=/opt/airflow/bin:/opt/spark/bin:/usr/local/bin:/usr/bin:/bin \
    AIRFLOW_HOME=/opt/airflow-home \
    AIRFLOW_PUSHDOWN_SPARK_PYTHON=/opt/spark/bin/python \
    SPARK_CONF_DIR=/opt/spark-conf

USER pushdown
VOLUME ["/data", "/events"]
