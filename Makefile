# All commands of this project. Each target runs the set-up that it needs; `make help` lists the targets.
#
# Values of variables are untrusted text: neither make nor the shell expands them. Recipes read them from their environment
# ("$$KEY", in quotes), never from make ($(KEY) would become shell text). tests/unit/test_makefile.py tests this.
override SHELL := bash
override .SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# make would expand `$` in variables of its command line before it exports them.
$(foreach name,$(.VARIABLES),$(if $(findstring command line,$(origin $(name))),$(eval override $(name) := $$(value $(name)))))

override UV_VERSION := 0.13.8
override RUN := .venv/bin/python -m
override CLUSTER_GIVEN := $(filter-out undefined,$(origin CLUSTER))
override TOPIC_GIVEN := $(filter-out undefined,$(origin TOPIC))
override DASHBOARDS_GIVEN := $(filter-out undefined,$(origin DASHBOARDS))
override export PYTHONPATH := $(CURDIR)
# Many short processes start here: each of them would compile all modules that it imports.
unexport PYTHONDONTWRITEBYTECODE

export TRACE_HOME ?= $(CURDIR)/var
export PYTHON ?= python3.11
export MESSAGES ?= 2000
export NAMESRV ?=
export TOPIC ?= RMQ_SYS_TRACE_TOPIC
export CLUSTER ?= default
export CREDENTIALS_ENV ?=
export QUEUE ?=
export FROM ?=
export TO ?=
export FROM_OFFSET ?=
export TO_OFFSET ?=
export KEEP ?=
export AT ?=
export KEY ?=
export QUERY ?=
export ID ?=
export STATE ?=
export MIN_MS ?=
export RAW ?=
export FORMAT ?=
export GROUP ?=
export MSG_ID ?=
export DRY_RUN ?=
export PUBLICATION ?=
export FOR ?=
export SYSTEM_USER ?=
export MATCH ?=
export END ?=
export YES ?=
export PORT ?= 8080
export DASHBOARDS ?=
export DASHBOARDS_PORT ?= 8088
export TESTS ?= tests
export SOAK ?= 10
export FUZZ ?= 1000000
export RECORDS ?= 1000000
export SOAK_TESTS ?= tests/decode/test_mutated_records.py tests/faults/client/test_fuzz.py tests/faults/client/test_parity.py tests/faults/jobs/test_two_writers.py tests/faults/jobs/test_jobs_killed.py tests/faults/jobs/test_replay_killed.py tests/faults/jobs/test_expiry_killed.py tests/faults/jobs/test_state_machine.py tests/faults/jobs/test_cycles.py tests/faults/cycle/test_rebuild_killed.py tests/faults/cycle/test_rollback.py tests/lake/test_ended_jobs.py tests/maintenance/test_erased_everywhere.py tests/dbt/test_serving_switch.py tests/backup tests/broker_facts/test_causes_of_releases.py tests/cluster tests/incremental/test_incremental_runs.py tests/e2e/test_interrupted.py tests/e2e/test_killed.py tests/e2e/test_make_run.py tests/e2e/test_restored.py tests/e2e/test_year.py
export CHAOS ?=
export GROWTH ?=
export STEPS ?= 300
export CYCLES ?= 200
export HISTORIES ?= 1000

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

# ---- set-up -------------------------------------------------------------------------------------

# Certificates of a company's CA: uv reads those of the system (UV_SYSTEM_CERTS), Java its own trust store (lake/jars.py).
# pip before 24.2 reads neither, so it gets the system's file unless its configuration names one.
override export SYSTEM_CA := import ssl; paths = ssl.get_default_verify_paths(); print(paths.cafile or paths.capath or "")

.PHONY: setup
setup: need-java .venv/installed ## install the locked Python packages, fetch the Java libraries, archive their classes
	@$(RUN) spark_jobs.lake.jars sandbox/ivy.xml > /dev/null
	@$(RUN) spark_jobs.jobs.archive_classes > /dev/null

# Shell code: install a lock file ($$1) into an environment ($$2), with uv, which is installed first if it is missing.
define INSTALL
uv=$$(command -v uv || true)
if [ -z "$$uv" ]; then
  uv=.tools/uv/bin/uv
  [ -x "$$uv" ] || { echo "set-up: installing uv $(UV_VERSION) into .tools/uv"
    "$$PYTHON" -m venv .tools/uv
    ca=$$(.tools/uv/bin/pip config list | grep "\.cert=" > /dev/null || "$$PYTHON" -c "$$SYSTEM_CA")
    .tools/uv/bin/pip install --disable-pip-version-check $${ca:+--cert "$$ca"} uv==$(UV_VERSION); }
fi
echo "set-up: installing $$(grep -c '^[a-z0-9]' "$$1") locked packages into $$2 (1 to 3 minutes)"
[ -x "$$2/bin/python" ] || "$$uv" venv -q --python "$$PYTHON" "$$2"
UV_SYSTEM_CERTS="$${UV_SYSTEM_CERTS:-true}" "$$uv" pip sync --require-hashes --compile-bytecode --python "$$2/bin/python" "$$1"
echo "set-up: packages installed in $$SECONDS s"
touch "$$2/installed"
endef
override export INSTALL := $(INSTALL)

.venv/installed: requirements.lock | need-python
	@set -- requirements.lock .venv; eval "$$INSTALL"

# Superset's libraries conflict with Airflow's.
.venv-dashboards/installed: dashboards/requirements.lock | need-python
	@set -- dashboards/requirements.lock .venv-dashboards; eval "$$INSTALL"

.PHONY: need-python need-java
need-python:
	@"$$PYTHON" -c 'import sys, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 is missing: install it (Debian: apt-get install python3.11 python3.11-venv) or set PYTHON=/path/to/python3.11" >&2; exit 1; }

need-java:
	@java=$${JAVA_HOME:+$$JAVA_HOME/bin/}java; \
	"$$java" -version 2>&1 | grep -qE 'version "(17|21)[."]' || { \
	  echo "Java 17 or 21 is missing: install it (Debian: apt-get install openjdk-17-jdk-headless) or set JAVA_HOME" >&2; exit 1; }

.PHONY: lock
lock: ## resolve pyproject.toml and dashboards/requirements.in into the lock files again
	uv pip compile pyproject.toml --group dev --group docs --group sandbox --universal --generate-hashes \
	  --python-version 3.11 --no-header -q -o requirements.lock
	uv pip compile dashboards/requirements.in --universal --generate-hashes \
	  --python-version 3.11 --no-header -q -o dashboards/requirements.lock

.PHONY: official-client
official-client: .venv/installed ## install the package rocketmq-client-python, for clusters that are read with it
	@uv=$$(command -v uv || echo .tools/uv/bin/uv); \
	UV_SYSTEM_CERTS="$${UV_SYSTEM_CERTS:-true}" "$$uv" pip install --require-hashes --python .venv/bin/python \
	  -r spark_jobs/rocketmq/librocketmq/requirements.lock

# ---- use ----------------------------------------------------------------------------------------

.PHONY: demo
demo: setup ## run the pipeline on a real broker with real traffic, and print three marts; MESSAGES=2000
	@$(RUN) sandbox.demo --messages="$$MESSAGES"

.PHONY: run
run: setup ## run the pipeline once on your cluster, and print three marts; NAMESRV=host:port [TOPIC=…] [CLUSTER=…] [CREDENTIALS_ENV=…]
	@$(RUN) deploy.run_once --namesrv="$$NAMESRV" --topic="$$TOPIC" --cluster="$$CLUSTER" \
	  --credentials-env="$$CREDENTIALS_ENV"

.PHONY: up down status need-venv
up: setup $(if $(DASHBOARDS_GIVEN),.venv-dashboards/installed) ## start Airflow with the DAGs on their schedule, for the clusters of the file TRACE_SETTINGS, until `make down`; PORT=8080 [DASHBOARDS=1: and Superset, DASHBOARDS_PORT=8088]
	@$(RUN) deploy.up up --port="$$PORT" $${DASHBOARDS:+--dashboards} --dashboards-port="$$DASHBOARDS_PORT"
down: need-venv ## stop what `make up` started
	@$(RUN) deploy.up down
status: need-venv ## show the components that `make up` started, and open alerts; exit code 0: all healthy
	@$(RUN) deploy.up status
need-venv:
	@[ -x .venv/bin/python ] || { \
	  echo 'nothing runs: this checkout is not set up yet (make setup)' >&2; exit 3; }

.PHONY: systemd
systemd: setup ## write a systemd unit that starts what `make up` starts, also after a reboot [SYSTEM_USER=trace: of the system; PORT=8080; DASHBOARDS=1]
	@$(RUN) deploy.systemd $${SYSTEM_USER:+--system --user "$$SYSTEM_USER"} --port="$$PORT" $${DASHBOARDS:+--dashboards} --dashboards-port="$$DASHBOARDS_PORT"

.PHONY: sql
sql: .venv/installed ## open DuckDB's shell on the published marts, or print the rows of a query; QUERY='select …' [FORMAT=table|csv|json]
	@$(RUN) spark_jobs.serving.sql $${QUERY:+--query="$$QUERY"} $${FORMAT:+--format="$$FORMAT"}

.PHONY: message
message: .venv/installed ## print the life of a message; ID=… (of client, broker or transaction) or KEY=… [CLUSTER=…] [RAW=1: its records] [FORMAT=text|json]
	@[ -n "$$ID$$KEY" ] || { echo "ID or KEY is missing: make message ID=7F000001…, make message KEY=order-1" >&2; exit 2; }
	@$(RUN) spark_jobs.lookup.command message $${ID:+--id="$$ID"} $${KEY:+--key="$$KEY"} $${RAW:+--records} \
	  $(if $(CLUSTER_GIVEN),--cluster="$$CLUSTER") $${FORMAT:+--format="$$FORMAT"}

.PHONY: search
search: .venv/installed ## list messages; [TOPIC=…] [GROUP=…] [KEY=…] [STATE=orphaned] [FROM=…] [TO=…] (UTC) [MIN_MS=…] [CLUSTER=…] [FORMAT=text|json]
	@$(RUN) spark_jobs.lookup.command search $(if $(TOPIC_GIVEN),--topic="$$TOPIC") $${GROUP:+--group="$$GROUP"} \
	  $${KEY:+--key="$$KEY"} $${STATE:+--state="$$STATE"} $${FROM:+--start="$$FROM"} $${TO:+--end="$$TO"} $${MIN_MS:+--min-ms="$$MIN_MS"} \
	  $(if $(CLUSTER_GIVEN),--cluster="$$CLUSTER") $${FORMAT:+--format="$$FORMAT"}

.PHONY: provider
provider: .venv/installed ## build the wheel of the Airflow provider for RocketMQ, below TRACE_HOME
	@uv=$$(command -v uv || echo .tools/uv/bin/uv); UV_SYSTEM_CERTS="$${UV_SYSTEM_CERTS:-true}" "$$uv" build --wheel --python .venv/bin/python \
	  --out-dir "$$TRACE_HOME/provider" provider

.PHONY: dashboards dashboards-export dashboards-screenshots
dashboards: .venv/installed .venv-dashboards/installed ## start Superset with the dashboards on the published marts, until Ctrl-C; DASHBOARDS_PORT=8088
	@$(RUN) deploy.dashboards.service --port="$$DASHBOARDS_PORT"
dashboards-export: .venv/installed .venv-dashboards/installed ## write what was changed in the browser back into the files of dashboards/
	@$(RUN) deploy.dashboards.export
dashboards-screenshots: .venv/installed .venv-dashboards/installed ## write docs/images/*.png: the dashboards on what is published below TRACE_HOME
	@$(RUN) docs.screenshots

.PHONY: ingest-reset
ingest-reset: setup ## reset a queue whose topic was deleted and recreated; QUEUE=cluster/topic/broker/id
	@[ -n "$$QUEUE" ] || { echo "QUEUE is missing: make ingest-reset QUEUE=cluster/topic/broker/id" >&2; exit 2; }
	@$(RUN) spark_jobs.jobs.reset_queue --queue="$$QUEUE"

.PHONY: ingest-retire
ingest-retire: setup ## retire a queue that was removed permanently, or all of a removed broker: the watermark does not wait for them; QUEUE=cluster/topic/broker[/id]
	@[ -n "$$QUEUE" ] || { echo "QUEUE is missing: make ingest-retire QUEUE=cluster/topic/broker[/id]" >&2; exit 2; }
	@$(RUN) spark_jobs.jobs.retire_queue --queue="$$QUEUE"

.PHONY: replay
replay: setup ## decode raw messages again, after a change of the decoder; FROM=2026-11-01 TO=2026-11-08 [DRY_RUN=1]
	@[ -n "$$FROM" ] && [ -n "$$TO" ] || { echo "FROM and TO are missing: make replay FROM=2026-11-01 TO=2026-11-08" >&2; exit 2; }
	@$(RUN) spark_jobs.jobs.replay --from="$$FROM" --to="$$TO" $${DRY_RUN:+--dry-run}

.PHONY: watchdog
watchdog: setup ## run the checks of freshness, consumer lag and disk space once, and send notifications
	@$(RUN) spark_jobs.jobs.watchdog

.PHONY: alert-test
alert-test: setup ## send a test alert of each route to its sinks, and show who accepted it
	@$(RUN) spark_jobs.jobs.alert_test

.PHONY: maintenance-window
maintenance-window: setup ## silence alerts that open in this time, or list the windows; FOR=2h [MATCH='prod:*:lag*'], or END=id
	@$(RUN) spark_jobs.jobs.maintenance_window $${FOR:+--for "$$FOR"} $${MATCH:+--match "$$MATCH"} $${END:+--end "$$END"}

.PHONY: reextract
reextract: setup ## read messages from the brokers again; FROM=… TO=… (store time), or QUEUE=… FROM_OFFSET=… TO_OFFSET=… [CLUSTER=…] [DRY_RUN=1]
	@$(RUN) spark_jobs.jobs.reextract $${FROM:+--from="$$FROM"} $${TO:+--to="$$TO"} \
	  $(if $(CLUSTER_GIVEN),--cluster="$$CLUSTER") $${QUEUE:+--queue="$$QUEUE"} \
	  $${FROM_OFFSET:+--from-offset="$$FROM_OFFSET"} $${TO_OFFSET:+--to-offset="$$TO_OFFSET"} $${DRY_RUN:+--dry-run}

.PHONY: maintain
maintain: setup ## apply the maintenance policy: retention, compaction, expiry of snapshots, removal of orphan files [DRY_RUN=1]
	@$(RUN) spark_jobs.jobs.maintain $${DRY_RUN:+--dry-run}

.PHONY: rebuild
rebuild: setup ## show which marts have changed models, and how long it takes to compute them again; then do it [DRY_RUN=1]
	@$(RUN) spark_jobs.jobs.rebuild $${DRY_RUN:+--dry-run}

.PHONY: rollback
rollback: setup ## put all marts back to an earlier publication [PUBLICATION=id, by default the one before; DRY_RUN=1]
	@$(RUN) spark_jobs.jobs.rollback $${PUBLICATION:+--publication "$$PUBLICATION"} $${DRY_RUN:+--dry-run}

.PHONY: history-tests
history-tests: setup ## run the tests of the published marts over all their rows
	@$(RUN) spark_jobs.jobs.history_tests

.PHONY: erase
erase: setup ## erase a key, group or message of a cluster from all tables and snapshots; KEY=… or GROUP=… or MSG_ID=… [CLUSTER=…] [DRY_RUN=1]; asks before, unless YES=1
	@$(RUN) spark_jobs.jobs.erase --cluster="$$CLUSTER" $${KEY:+--key="$$KEY"} $${GROUP:+--group="$$GROUP"} \
	  $${MSG_ID:+--msg-id="$$MSG_ID"} $${DRY_RUN:+--dry-run} $$([ "$$YES" != 1 ] || echo --yes)

.PHONY: docs
docs: setup ## write the documentation as a site with search, and dbt's site of models, columns, tests and lineage, below TRACE_HOME
	@$(RUN) docs.website.build
	@$(RUN) docs.site

.PHONY: dictionary
dictionary: setup ## generate docs/data_dictionary.md from the tables and models
	@$(RUN) docs.data_dictionary

.PHONY: checks
checks: setup ## generate docs/checks.md from the checks and their settings
	@$(RUN) docs.checks

.PHONY: settings
settings: setup ## generate docs/settings.md from the settings
	@$(RUN) docs.settings

.PHONY: metrics
metrics: setup ## generate docs/metrics.md from the metrics for Prometheus and their settings
	@$(RUN) docs.metrics

.PHONY: licences
licences: setup .venv-dashboards/installed ## generate docs/licences.md: every Python package and jar with version and licence
	@$(RUN) docs.licences

.PHONY: cookbook
cookbook: setup ## run the queries of docs/cookbook.md, and write their outputs into it
	@TRACE_WRITE_COOKBOOK=1 $(RUN) pytest -q tests/dbt/test_cookbook.py

.PHONY: conformance
conformance: setup ## generate docs/conformance.md from the tables of tests/conformance
	@$(RUN) docs.conformance

# ---- check --------------------------------------------------------------------------------------

.PHONY: test
test: setup .venv-dashboards/installed ## run all tests, on a real broker, Spark, Iceberg, dbt and Airflow; TESTS=tests/unit for some
	@$(RUN) tests "$$TESTS" -n 3 --dist loadgroup --no-loadscope-reorder

.PHONY: soak
soak: setup ## run long tests and print their counts: jobs killed at each step (SOAK=10 times), random sequences (STEPS=300, CYCLES=200, HISTORIES=1000), damaged answers (FUZZ=1000000) and records (RECORDS=1000000); or, in a running `make up`, faults at random (CHAOS=3600 seconds) or what a compressed week leaves behind (GROWTH=7 days)
	@TRACE_SOAK_CHAOS="$$CHAOS" TRACE_SOAK_GROWTH="$$GROWTH" TRACE_SOAK_REPEATS="$$SOAK" TRACE_SOAK_FUZZ="$$FUZZ" TRACE_SOAK_RECORDS="$$RECORDS" \
	  TRACE_SOAK_STEPS="$$STEPS" TRACE_SOAK_CYCLES="$$CYCLES" TRACE_SOAK_HISTORIES="$$HISTORIES" \
	  $(RUN) tests "$$SOAK_TESTS" -n 2 --dist loadgroup --timeout=0 -p tests.counts

.PHONY: check
check: setup ## run before each commit, about a minute: ruff, format, types, unit tests
	@.venv/bin/ruff check -q . && .venv/bin/ruff format -q --check .
	@.venv/bin/mypy & types=$$!; code=0; $(RUN) pytest -q -n 2 --dist loadfile tests/unit || code=$$?; wait "$$types" || code=1; exit "$$code"

.PHONY: lint
lint: setup ## run ruff, format, types, SQL style, dashboards against the dbt project
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/sqlfluff lint -q dbt_project/models dbt_project/tests
	@$(RUN) deploy.dashboards.lint

# ---- back up ------------------------------------------------------------------------------------

.PHONY: backup
backup: setup ## back up the lake and the state of TRACE_HOME while jobs run; TO=folder [KEEP=7: remove all but the newest seven]
	@[ -n "$$TO" ] || { echo "TO is missing: make backup TO=/mnt/backups" >&2; exit 2; }
	@$(RUN) spark_jobs.jobs.backup --to="$$TO" $${KEEP:+--keep="$$KEEP"}

.PHONY: restore
restore: setup ## restore a backup into a TRACE_HOME without a lake; FROM=folder [AT=2026-11-26]
	@[ -n "$$FROM" ] || { echo "FROM is missing: make restore FROM=/mnt/backups" >&2; exit 2; }
	@$(RUN) spark_jobs.jobs.restore --from="$$FROM" $${AT:+--at="$$AT"}

.PHONY: move
move: setup ## move the lake to another TRACE_HOME; TO=folder
	@[ -n "$$TO" ] || { echo "TO is missing: make move TO=/srv/trace" >&2; exit 2; }
	@$(RUN) spark_jobs.jobs.move --to="$$TO"

# ---- measure ------------------------------------------------------------------------------------

.PHONY: bench
bench: bench-extract bench-clients bench-facts bench-decode bench-merge bench-tick bench-up bench-cluster bench-models bench-scale bench-lookup bench-dashboards ## run all benchmarks

.PHONY: bench-extract
bench-extract: setup ## compare our client with the official Java client and the PyPI wheel, on a real broker
	@$(RUN) benchmarks.extract

.PHONY: bench-clients
bench-clients: setup ## compare our client with the library of rocketmq-client-python: speed, codecs, offsets, ACL, failures
	@$(RUN) benchmarks.clients

.PHONY: bench-facts
bench-facts: setup ## measure what the facts of the brokers cost, with 200 groups and 50 topics of 16 queues, beside an extraction
	@$(RUN) benchmarks.facts

.PHONY: bench-decode
bench-decode: setup ## compare our decoder with DuckDB's plain split and a decoder in plain Python
	@$(RUN) benchmarks.decode

.PHONY: bench-merge
bench-merge: setup ## measure decode and merge of a million records into 20 M and into 2 M, beside a plain append, and of 1,000 queues and of 4
	@$(RUN) benchmarks.merge
	@$(RUN) benchmarks.merge.queues

.PHONY: bench-tick
bench-tick: setup ## measure a cycle with 1,000 new trace messages beside 10 M records of history, and one without any
	@$(RUN) benchmarks.tick

.PHONY: bench-up
bench-up: setup ## measure what `make up` costs without traffic, and how long after a send the published marts have it; 40 minutes
	@$(RUN) benchmarks.up

.PHONY: bench-cluster
bench-cluster: setup ## measure two Spark workers beside one, and the freshness of nine clusters beside one that never answers
	@$(RUN) benchmarks.cluster

.PHONY: bench-dashboards
bench-dashboards: .venv/installed .venv-dashboards/installed ## measure all dashboards over a year of hours with 200 topics, in a browser
	@$(RUN) benchmarks.dashboards

.PHONY: bench-models
bench-models: setup ## measure an incremental run of the marts beside 10 M and 1 M records of history, and small ones without generated code; compare percentiles with exact ones
	@$(RUN) benchmarks.models
	@$(RUN) benchmarks.models.small

.PHONY: bench-scale
bench-scale: setup ## measure each stage of a batch of 1 M records in lakes of 1, 5 and 20 M, and the memory of 1 M and 5 M messages a run
	@$(RUN) benchmarks.scale

.PHONY: bench-lookup
bench-lookup: setup ## measure the look-up of a message at 20 M and 2 M records and beside mqadmin, and the serving file with a year of hours
	@$(RUN) benchmarks.lookup
