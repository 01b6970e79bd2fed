"""Pytester for the tests of the plug-in; nothing else."""

pytest_plugins = ["pytester"]
