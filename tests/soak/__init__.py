"""Soak tests: long-lived writers and kill -9. `make soak`; `tests/test_soak.py` runs a short form."""
