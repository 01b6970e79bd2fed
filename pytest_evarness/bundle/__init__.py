"""The proof bundle: what was sealed, what came out, signed; and how it is verified.

It knows nothing of pytest and of scenario files; verifying needs a bundle and keys, nothing else.
"""
