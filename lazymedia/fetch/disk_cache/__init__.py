"""Downloads kept on disk from one run to the next."""
