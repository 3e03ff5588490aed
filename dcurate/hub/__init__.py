"""What loading a model takes: its files, tokenizers, devices, and copies that the slots of a process share."""
