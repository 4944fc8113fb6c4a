-- One row a message id: where and when it was first published. Consumer records carry no topic, it comes from here.
{{ config(materialized='working_table', schema='changes') }}
{{ first_publications('affected') }}
