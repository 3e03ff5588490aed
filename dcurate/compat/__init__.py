"""Other toolkits' names for what dcurate does."""
