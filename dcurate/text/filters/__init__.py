"""Filters by subject: characters, words, lines, repetition."""
