"""Databases as services of the simulated world: SQLite, PostgreSQL, MySQL and MariaDB.

Importing the package does nothing; a driver is imported when a database is first started.
"""
