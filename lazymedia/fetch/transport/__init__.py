"""Connections to checked addresses, and requests over them."""
