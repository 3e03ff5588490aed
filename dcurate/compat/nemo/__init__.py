"""Programs that were written for NeMo Curator run on dcurate, unchanged.

After `install`, ``import nemo_curator`` gives modules whose names are dcurate's. ``dcurate nemo SCRIPT`` does so for a
script. `names.toml` lists the modules and names.
"""

from dcurate.compat.nemo.finder import install, uninstall

__all__ = ["install", "uninstall"]
