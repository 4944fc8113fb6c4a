-- One row per message id: its first publication, from which consumer records, which contain no topic, get theirs (macros/messages.sql).
{{ config(materialized='working_table', schema='changes') }}
{{ first_publications('affected') }}
