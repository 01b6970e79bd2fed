"""The simulated world of a run: workspace, services, effects, snapshots.

Nothing in it is real, and nothing of it outlives the run. Importing the package does nothing.
"""
