"""Tables of Delta Lake, Iceberg and Lance: read at a version, and written with one commit."""
