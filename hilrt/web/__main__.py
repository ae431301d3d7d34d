"""``python -m hilrt.web``: what `hilrt run --web` starts."""

import sys

try:
    from hilrt.web.server import main
except ModuleNotFoundError as error:
    if str(error.name).startswith("hilrt"):
        raise
    sys.stderr.write(f"page: needs {error.name}; install hilrt[web]\n")
    sys.exit(1)

if __name__ == "__main__":
    sys.exit(main())
