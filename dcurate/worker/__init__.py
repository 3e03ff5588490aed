"""What runs inside a worker process: slots, their set-up and tear-down, and the one function that tasks call."""
