"""The domain-neutral kernel: graphs, runs, events, digests, outcomes.

It knows nothing of agents, of pytest, of YAML files or of services.
"""
