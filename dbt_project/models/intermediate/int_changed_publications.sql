-- One row a changed message id: where and when it was first published, as int_message_publications.
{{ first_publications('changed') }}
