"""`python -m runnel.cli`, where the script is not on the path."""

from runnel.cli import main

main()
