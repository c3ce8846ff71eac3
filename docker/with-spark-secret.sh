#!/bin/sh
# Runs a command with a copy of Spark's configuration that has the secret of its connections. Spark reads the secret from
# a file only on Kubernetes, and as an argument everybody on the machine could read it.
set -eu
umask 077
own=/tmp/spark-conf
mkdir -p "$own"
cp "$SPARK_CONF_DIR"/* "$own"
printf 'spark.authenticate true\nspark.network.crypto.enabled true\nspark.authenticate.secret %s\n' \
    "$(cat "${SPARK_SECRET_FILE:-/run/secrets/spark_secret}")" >> "$own/spark-defaults.conf"
export SPARK_CONF_DIR="$own"
exec "$@"
