"""Superset with the dashboards of `dashboards/`: its environment, the import and export of the YAML files, and its start."""
