"""Strict YAML and JSON documents with the place of every value, and strict models over them.

It knows nothing of scenarios, contracts or runs.
"""
