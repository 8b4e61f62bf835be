"""Sources without a network: data URLs and local files. For worker threads."""
