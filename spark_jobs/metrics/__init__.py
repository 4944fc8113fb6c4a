"""Metrics for Prometheus: what the published marts, the lake and Airflow say now."""
