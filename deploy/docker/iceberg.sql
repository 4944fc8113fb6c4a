-- Airflow's database is made by the image; this one holds the Iceberg catalog.
create database iceberg;
