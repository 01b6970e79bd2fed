"""The node types of the agents domain, one module for each kind of work.

They know the kernel's context and this domain's state; of scenarios and files they know nothing.
"""
