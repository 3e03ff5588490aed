"""Oracles, servers and made-up data that tests and benchmarks share; it imports neither, and no wheel has it."""
