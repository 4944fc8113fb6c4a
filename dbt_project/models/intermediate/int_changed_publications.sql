-- One row per changed message id: its first publication, as in int_affected_publications (macros/messages.sql).
{{ first_publications('changed') }}
