"""What a running warehouse leaves behind, over a week in a compressed clock."""
