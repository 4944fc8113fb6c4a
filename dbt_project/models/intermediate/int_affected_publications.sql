-- One row per message id: its first publication (macros/messages.sql), from which consumer records get theirs: they contain no
-- topic.
{{ config(materialized='working_table', schema='changes') }}
{{ first_publications('affected') }}
