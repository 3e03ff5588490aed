"""How many slots of which operator on which host and GPU."""
