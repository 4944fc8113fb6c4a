"""What it costs to merge a batch into a table, and whether the table's size matters."""
