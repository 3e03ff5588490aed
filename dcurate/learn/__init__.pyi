"""Public names of `dcurate.learn` and the modules that define them; `__init__.py` reads this file."""

__all__: list[str]
