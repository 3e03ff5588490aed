"""Allocate slots: how many of which operator on which host and GPU.

`inputs` holds what is known of a run, `decide` says when to change its slots, and `solve` finds the best allocation,
with the bin-packing `model` and the `packer`. `explain` gives the reasons.
"""
