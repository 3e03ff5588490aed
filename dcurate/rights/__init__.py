"""What the owners of files say about their use, as columns, and policies over these."""
