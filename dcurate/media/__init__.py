"""Media by reference: where the bytes of a picture, a PDF or another file lie, and how to read them safely."""
