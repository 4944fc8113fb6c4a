# Airflow, Spark and dbt as `make setup` installs them, and the project.
FROM python:3.11-slim-bookworm

RUN apt-get update \
 && apt-get install -qy --no-install-recommends make openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 50000 trace \
 && install -d -o trace -g trace /opt/trace \
 && install -d -m 0700 -o trace -g trace /var/lib/trace

USER trace
WORKDIR /opt/trace
COPY --chown=trace Makefile requirements.lock ./
RUN make .venv/installed
COPY --chown=trace . .
RUN make setup

ENV PATH=/opt/trace/.venv/bin:$PATH \
    PYTHONPATH=/opt/trace:/opt/trace/plugins \
    PYSPARK_PYTHON=/opt/trace/.venv/bin/python \
    TRACE_HOME=/var/lib/trace \
    AIRFLOW_HOME=/var/lib/trace/airflow
# What any component writes into the volume is the owner's alone.
ENTRYPOINT ["sh", "-c", "umask 077; exec \"$@\"", "--"]
