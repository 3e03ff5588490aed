"""Headers of recordings, by format."""
