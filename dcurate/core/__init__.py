"""Values and contracts of dcurate; nothing here needs more than the standard library."""
