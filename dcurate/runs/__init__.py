"""What a run was: its state, history and records."""
