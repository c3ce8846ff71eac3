#!/bin/sh
# Creates Airflow's tables, and the connection that the remote scans of the example DAGs use.
set -eu
umask 077
airflow db migrate
file="$(mktemp --suffix .json)"
trap 'rm -f "$file"' EXIT
# The shell prints the password itself, so that it is on no command line.
printf '{"flights_db": {"conn_type": "postgres", "host": "%s", "port": %s, "schema": "shop", "login": "shop", "password": "%s"}}' \
    "${SHOP_HOST:-postgres}" "${SHOP_PORT:-5432}" "$(cat "${SHOP_PASSWORD_FILE:-/run/secrets/shop_password}")" > "$file"
airflow connections import --overwrite "$file"
