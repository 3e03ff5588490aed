"""Child processes that may die: how they are started and limited, how they talk, and how they ended.

`Sandbox` calls a function of bytes in one; the sandbox of the engine (`dcurate.engine.worker.sandbox`) runs batches.
"""
