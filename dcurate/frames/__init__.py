"""All that is known of pandas, Arrow and cuDF: which library holds a frame, and how to get from one to another."""
