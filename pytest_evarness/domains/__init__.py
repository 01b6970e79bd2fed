"""Domains: each one folder with ``register(registry)``; the kernel knows none of them by name."""
