"""What the dearest inputs that are still below every limit cost to load: CPU seconds and memory, against a bound.

``python -m benchmarks.worst_cases`` makes each input on the spot, decodes it in a process of its own and prints a row.
No input may end the process, or cost more than 2 CPU seconds per megabyte plus 1 second per 10 megapixels, or per
minute of audio, that are asked for.
"""
