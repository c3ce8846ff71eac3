-- Beside Airflow's database, the one that the remote scans of the example DAGs read.
CREATE DATABASE shop;
