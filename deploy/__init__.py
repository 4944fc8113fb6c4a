"""Run the warehouse on one machine or in containers: Airflow with its pools, its components and their supervision."""
