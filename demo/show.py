"""Show what the last run of a DAG of scans answered: per task the report, where the rows lie, and a few of them.

python -m demo.show flights_scan      in the environment of .demo/env.sh
"""
