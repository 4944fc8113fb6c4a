"""Airflow extensions: the connection type `rocketmq`, its hook, a sensor, pages and a link."""
