"""`python -m changeover`."""

from changeover.cli import main

main()
