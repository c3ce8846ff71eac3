"""The former name of `spark_submit.class_archive`, for images that run it as a program."""

from __future__ import annotations

import sys

from airflow_pushdown.spark_submit.class_archive import main

if __name__ == "__main__":
    sys.exit(main())
