"""How items of a case are judged from evidence; it knows nothing of files, sessions or pytest."""
