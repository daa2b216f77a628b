"""`python -m hudi_inspect TABLE`."""

from hudi_inspect.cli import main

if __name__ == "__main__":
    main()
