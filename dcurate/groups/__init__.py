"""Groups of equal or similar rows over a whole dataset, and which row of a group stays."""
