"""What Airflow knows of the warehouse: the connection type `rocketmq`, its hook, a sensor, pages and a link."""
