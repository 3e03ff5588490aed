"""Inside a worker process: slots, and the tasks that run in them."""
