# make demo   load the demo documents and look at what came out
# make test   tests, but for the long ones, which make test-all runs too, in an hour; WORKERS=2 processes, of which each takes 5 GB
# make ci-all what CI runs, each suite whole, and the benchmark: before a release, in some hours
# make lint   ruff, mypy of the package and of tests, sqlfluff of ddl/, pymarkdown of docs/: as .pre-commit-config.yaml runs them
# make attack what somebody who means harm tries (docs/security.md), with ROUNDS=5 times as many requests as `make test` sends
# make airflow-test  the DAGs, run by Airflow in another environment (.venv-airflow); airflow-test-all kills drivers and Airflow, too
# make bi-test       the SQL server's clients and Apache Superset, in an environment of their own (.venv-bi)
# make http-test     `lakehouse serve` with xrcg and Schemathesis, in an environment of their own (.venv-clients); http-test-all with
#            the published documents beside this checkout, and in more languages
# make ui-test       the pages in headless Chromium (Debian's package), with axe-core of npm (.venv-ui); SHORT=1 leaves out the dark
# make asyncapi-test  documents that are exported, with the official JSON Schemas and parser of npm, and the examples of AsyncAPI
# make mcp-test  the conformance tests and the inspector of the Model Context Protocol, of npm, with both transports
# make cluster-test  the jobs on a Spark cluster of this machine
# make connect-test  a catalog on Spark Connect, with a server of PySpark's package
# make dbt-test       models of dbt on a catalog, by the session method of dbt-spark (.venv-dbt)
# make kubernetes-test  the manifests of conf/kubernetes/ with the schemas of Kubernetes and of the Spark operator (.venv-kubernetes); needs no Java
# make s3-test       documents, warehouse and exports on an S3 server of this machine (.venv-s3), and S3_INGESTS=3 ingests of each of
#            two writers; Maven gives 700 MB of jars
# make matrix-test  the command in other environments, with Spark and without: each Python of MATRIX="3.10 3.11 3.12 3.13" that is on the
#            PATH, and the oldest libraries that pyproject.toml allows, so the oldest Spark, too
# make soak   a random history against a model (STEPS=200, SEED=1), writers and kill -9, for hours
# make metastore-test  a Hive metastore in a process by itself, and spark-sql of another one
# make trino-test  the tables, read by a Trino server of Maven's (800 MB); TRINO_JAVA_HOME names a Java 24 or newer
# make bench  benchmark (N messages, default 10000; REPEAT pairs, default 3): a table, bench-N.json and bench-N.png
# make quick-bench  the read model and the commands that answer out of it, with N messages; needs no Java
# make http-bench  requests and writes a second of `lakehouse serve` with N messages, beside a floor; needs no Java
# make docs   the pages of docs/ that come from the code; make docs-site  docs/ as a site, in docs-site/ (.venv-docs; needs no Java)
# Each target makes .venv and installs what it needs; only Python 3.10 or newer and Java 17 or 21 must be there.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
N ?= 10000
ROUNDS ?= 5
WORKERS ?= 2

.PHONY: demo test test-all ci-all attack airflow-test airflow-test-all bi-test http-test http-test-all ui-test asyncapi-test mcp-test screenshots cluster-test connect-test dbt-test kubernetes-test matrix-test metastore-test s3-test trino-java trino-test lint bench quick-bench http-bench soak docs docs-site clean java

demo: java $(VENV)/installed
	$(BIN)/lakehouse demo

test: $(VENV)/prepared
	$(BIN)/python -m pytest -m "not slow" -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test-all: $(VENV)/prepared
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

ci-all: lint docs-site test-all airflow-test-all http-test-all cluster-test connect-test kubernetes-test
	if .ci/check-chromium; then $(MAKE) ui-test; fi
	$(MAKE) bench N=1000 REPEAT=1
	$(MAKE) soak

attack: java $(VENV)/installed
	ATTACK_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -m attack -n $(WORKERS) --dist loadfile --no-loadscope-reorder

airflow-test: java $(VENV)/installed .venv-airflow/installed
	LAKEHOUSE_BIN=$(CURDIR)/$(BIN) .venv-airflow/bin/python -m pytest -c tests/airflow/pytest.ini tests/airflow

airflow-test-all: export AIRFLOW_ALL = 1
airflow-test-all: airflow-test

bi-test: java $(VENV)/installed .venv-bi/installed
	LAKEHOUSE_BIN=$(CURDIR)/$(BIN) .venv-bi/bin/python -m pytest -c tests/bi/pytest.ini tests/bi

http-test: java $(VENV)/installed .venv-clients/installed
	LAKEHOUSE_BIN=$(CURDIR)/$(BIN) .venv-clients/bin/python -m pytest -c tests/clients/pytest.ini tests/clients

http-test-all: export CLIENTS_ALL = 1
http-test-all: http-test

ui-test: $(VENV)/installed .venv-ui/installed tests/ui/node_modules
	@.ci/check-chromium
	LAKEHOUSE_BIN=$(CURDIR)/$(BIN) SHORT=$(SHORT) .venv-ui/bin/python -m pytest -c tests/ui/pytest.ini tests/ui

screenshots: $(VENV)/installed .venv-ui/installed
	LAKEHOUSE_BIN=$(CURDIR)/$(BIN) .venv-ui/bin/python tests/ui/screenshots.py

tests/ui/node_modules: tests/ui/package.json
	@.ci/check-chromium
	npm install --prefix tests/ui --no-package-lock --silent
	touch $@

asyncapi-test: tests/asyncapi/node_modules $(VENV)/installed
	ASYNCAPI_SAMPLES=$</examples-0.59.1:$</examples-4.1.1 $(BIN)/python -m pytest -c tests/asyncapi/pytest.ini tests/asyncapi

# The examples of the specification come with its command line.
tests/asyncapi/node_modules: tests/asyncapi/package.json
	npm install --prefix tests/asyncapi --no-package-lock --silent
	cd $@ && for version in 0.59.1 4.1.1; do \
	  npm pack --silent @asyncapi/cli@$$version && mkdir -p examples-$$version && \
	  tar xzf asyncapi-cli-$$version.tgz -C examples-$$version --strip-components 3 package/assets/examples; done
	touch $@

mcp-test: $(VENV)/installed tests/inspector/node_modules
	$(BIN)/python -m pytest -c tests/inspector/pytest.ini tests/inspector

tests/inspector/node_modules: tests/inspector/package.json
	npm install --prefix tests/inspector --no-package-lock --silent
	touch $@

cluster-test: java $(VENV)/installed
	$(BIN)/python -m pytest -c tests/cluster/pytest.ini tests/cluster

connect-test: java $(VENV)/installed
	$(BIN)/python -m pytest -c tests/connect/pytest.ini tests/connect

dbt-test: java $(VENV)/installed .venv-dbt/installed
	LAKEHOUSE_BIN=$(CURDIR)/$(BIN) .venv-dbt/bin/python -m pytest -c tests/dbt/pytest.ini tests/dbt

kubernetes-test: $(VENV)/installed .venv-kubernetes/installed
	LAKEHOUSE_BIN=$(CURDIR)/$(BIN) .venv-kubernetes/bin/python -m pytest -c tests/kubernetes/pytest.ini tests/kubernetes

MATRIX ?= 3.10 3.11 3.12 3.13
FOUND = $(foreach version,$(MATRIX),$(if $(shell python$(version) --version 2>/dev/null),$(version)))
ENVIRONMENTS = $(FOUND:%=.venv-matrix-%) .venv-matrix-lowest
SPARK_ENVIRONMENTS = $(FOUND:%=.venv-matrix-spark-%) .venv-matrix-spark-lowest

matrix-test: java $(VENV)/installed
	@for version in $(MATRIX); do python$$version --version >/dev/null 2>&1 || echo "Python $$version is not on the PATH: left out"; done
	$(MAKE) $(ENVIRONMENTS:=/installed) $(SPARK_ENVIRONMENTS:=/installed)
	ENVIRONMENTS="$(ENVIRONMENTS)" SPARK_ENVIRONMENTS="$(SPARK_ENVIRONMENTS)" $(BIN)/python -m pytest -c tests/matrix/pytest.ini tests/matrix

metastore-test: java $(VENV)/installed
	$(BIN)/python -m pytest -c tests/metastore/pytest.ini tests/metastore

s3-test: java $(VENV)/installed .venv-s3/installed
	LAKEHOUSE_BIN=$(CURDIR)/$(BIN) .venv-s3/bin/python -m pytest -c tests/s3/pytest.ini tests/s3

trino-java:
	@test -n "$(TRINO_JAVA_HOME)" || { echo "TRINO_JAVA_HOME has to name a Java 24 or newer" >&2; exit 1; }

trino-test: trino-java java $(VENV)/installed .venv-trino/installed
	TRINO=.venv-trino TRINO_JAVA_HOME=$(TRINO_JAVA_HOME) $(BIN)/python -m pytest -c tests/trino/pytest.ini tests/trino

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file .ci/mypy-tests.ini
	$(BIN)/mypy --config-file .ci/mypy-programs.ini
	$(BIN)/sqlfluff lint ddl
	$(BIN)/pymarkdown scan *.md docs docs/decisions

bench: $(VENV)/prepared
	$(BIN)/python -m tests.bench --messages $(N) $(if $(REPEAT),--repeat $(REPEAT)) --json bench-$(N).json --chart bench-$(N).png

http-bench: $(VENV)/installed
	$(BIN)/python -m tests.bench.http --messages $(N)
	$(BIN)/python -m tests.bench.httpwrite --messages $(N)

quick-bench: $(VENV)/installed
	$(BIN)/python -m tests.bench.quick --messages $(N)

soak: java $(VENV)/installed
	$(BIN)/python -m tests.soak.machine --steps $(or $(STEPS),200) --seed $(or $(SEED),1)
	$(BIN)/python -m tests.soak
	$(BIN)/python -m tests.soak.faults

docs: $(VENV)/installed
	$(BIN)/python tests/docs.py

docs-site: .venv-docs/installed
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict --config-file .ci/docs/mkdocs.yml
	.venv-docs/bin/python .ci/docs/check_site.py docs-site

# Reported before anything is installed.
java:
	@PYTHON=$(PYTHON) sh .ci/check-java

$(VENV)/installed: pyproject.toml .ci/constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.10 or newer is needed: install it, or name it with make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --use-pep517 --constraint .ci/constraints.txt --editable '.[dev]'
	touch $@

# Spark starts in half the time from an archive of its classes; without one everything works.
$(VENV)/prepared: $(VENV)/installed | java
	$(BIN)/lakehouse prepare --quiet || true
	touch $@

.venv-docs/installed: .ci/docs/requirements.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

.venv-matrix-lowest/installed: EXTRA = serve
.venv-matrix-spark-lowest/installed: EXTRA = all
.venv-matrix-lowest/installed .venv-matrix-spark-lowest/installed: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check uv==0.13.9
	$(@D)/bin/uv pip install --quiet --python $(@D) --resolution lowest-direct --editable '.[$(EXTRA)]'
	touch $@

.venv-matrix-spark-%/installed: pyproject.toml .ci/constraints.txt
	python$* -m venv .venv-matrix-spark-$*
	.venv-matrix-spark-$*/bin/pip install --quiet --disable-pip-version-check --constraint .ci/constraints.txt --editable '.[all]'
	touch $@

.venv-matrix-%/installed: pyproject.toml .ci/constraints.txt
	python$* -m venv .venv-matrix-$*
	.venv-matrix-$*/bin/pip install --quiet --disable-pip-version-check --constraint .ci/constraints.txt --editable '.[serve]'
	touch $@

.venv-trino/installed:
	mvn --quiet dependency:copy -Dartifact=io.trino:trino-server:476:tar.gz -DoutputDirectory=.venv-trino
	tar xzf .venv-trino/trino-server-476.tar.gz -C .venv-trino --strip-components 1
	rm .venv-trino/trino-server-476.tar.gz
	touch $@

.venv-%/installed: tests/%/requirements.txt
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/pip install --quiet --disable-pip-version-check --use-pep517 --requirement $<
	touch $@

clean:
	rm -rf $(VENV) .venv-* docs-site tests/ui/node_modules tests/asyncapi/node_modules tests/inspector/node_modules ui-screenshots demo-warehouse demo-proposals bench-*.json bench-*.png dist build .pytest_cache .mypy_cache .ruff_cache
