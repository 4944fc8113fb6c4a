"""Airflow extensions of the warehouse: trigger and sensor for trace messages, operators, pages and a link."""
