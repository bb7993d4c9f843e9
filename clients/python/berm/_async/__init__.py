"""The half of the package for asyncio; berm/_sync is derived from it by scripts/gen-python-sync.py."""
