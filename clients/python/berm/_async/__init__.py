"""The asyncio half of the package. scripts/gen-python-sync.py derives berm/_sync from it."""
