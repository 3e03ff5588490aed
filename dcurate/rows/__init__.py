"""Hidden columns of rows: the lines of JSON that they were read from, and where that was."""
