"""Files, wherever they are: stores, atomic writes, compression."""
