"""Personal data: found, counted, and replaced."""
