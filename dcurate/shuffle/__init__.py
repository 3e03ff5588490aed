"""The out-of-core exchange of rows by a key."""
