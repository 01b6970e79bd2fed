"""The service type ``http_mock``: routes, a journal of every request, a server on loopback.

Knows nothing of checks; importing the package does nothing.
"""
