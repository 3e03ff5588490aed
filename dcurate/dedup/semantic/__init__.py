"""Documents that mean the same: near in the space of their embeddings."""
