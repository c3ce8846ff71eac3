#!/bin/sh
# Runs once, when the database is created. Next to Airflow's database, it creates the one that the remote scans of the
# example DAGs read, and its user, who owns that database and has no rights for another one.
set -eu
umask 077
# psql reads the password from the file itself, so that it is on no command line.
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
\set password `cat /run/secrets/shop_password`
CREATE ROLE shop LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'password';
CREATE DATABASE shop OWNER shop;
REVOKE CONNECT, TEMPORARY ON DATABASE shop, airflow, postgres FROM PUBLIC;
SQL
