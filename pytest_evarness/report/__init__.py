"""Renderers: from findings and bundles to text and files. Nothing here judges."""
