-- One row per changed message id: its first publication, as in int_message_publications.
{{ first_publications('changed') }}
