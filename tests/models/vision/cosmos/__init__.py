"""Code as it comes with the weights of Cosmos-Embed1: a small model with the functions of it."""
