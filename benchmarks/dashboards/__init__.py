"""How fast the dashboards are on a year of hours with 200 topics."""
