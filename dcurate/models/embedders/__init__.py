"""Embeddings of texts, by any encoder of Hugging Face or model of sentence-transformers."""
