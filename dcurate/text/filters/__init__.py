"""Filters by what they look at: characters, words, lines, repetition."""
