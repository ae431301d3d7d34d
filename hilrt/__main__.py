"""``python -m hilrt`` is the ``hilrt`` command."""

from hilrt.cli.main import main

if __name__ == "__main__":
    main()
