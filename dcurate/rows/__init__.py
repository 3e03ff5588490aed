"""Hidden columns of rows: the lines of JSON that they were read from, and where that was.

This is the door: stages and what moves rows about import from here. Only readers and writers of lines, tables and the
alias look into the modules behind it.

- Rows on their way: `left_in_lines` drops texts that lines have, `whole_rows` gives all values, `columns_to_read` and
  `joined` handle files and tables of them.
- Names: `visible` and `columns_listed` leave hidden ones out.
- Where rows were read: a stage that names `ORIGINS` among its optional inputs is given them, see `origins_of`.
- A pipeline: `adapt_rows` has each stage make such rows as later ones need.
"""

from dcurate.rows.hidden import columns_listed, visible
from dcurate.rows.lines import columns_to_read, has_lines, joined, left_in_lines, whole_rows
from dcurate.rows.needed import adapt_rows, used_after
from dcurate.rows.origins import ORIGINS, origins_of, with_epochs, with_origins, without_origins

__all__ = [
    "ORIGINS",
    "adapt_rows",
    "columns_listed",
    "columns_to_read",
    "has_lines",
    "joined",
    "left_in_lines",
    "origins_of",
    "used_after",
    "visible",
    "whole_rows",
    "with_epochs",
    "with_origins",
    "without_origins",
]
