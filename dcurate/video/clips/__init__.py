"""Clips cut out of videos: copied packet for packet, or exact to the frame."""
