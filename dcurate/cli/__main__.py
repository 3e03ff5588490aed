"""``python -m dcurate.cli``."""

from dcurate.cli import main

main()
