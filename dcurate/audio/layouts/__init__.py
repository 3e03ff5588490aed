"""Layouts of speech corpora: manifests, cuts, shards and folders of recordings."""
