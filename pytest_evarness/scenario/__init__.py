"""The scenario file: schema, loading with line numbers, case expansion, compilation.

It runs nothing and knows nothing of pytest, verdicts or bundles.
"""
