"""Shots of videos: cuts and gradual transitions, and clips between them."""
