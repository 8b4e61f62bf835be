"""Benchmarks: each is a command that prints a table of ratios taken in one run. Never a test."""
