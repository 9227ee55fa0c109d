"""`python -m lakehouse` is the command `lakehouse`."""

from __future__ import annotations

from lakehouse.cli.main import main

if __name__ == "__main__":
    main()
