"""The rows of interleaved documents: texts and images in reading order, a row for each."""
