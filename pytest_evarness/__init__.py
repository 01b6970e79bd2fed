"""Prove what an AI agent's harness does before it touches real data. PYTEST_DONT_REWRITE."""
