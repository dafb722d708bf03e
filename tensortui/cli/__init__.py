"""The command line: one module a subcommand, whose docstring is its help.

Each has `add_arguments(parser)` and `run(arguments) -> exit code`. At import they load nothing but light modules of the
standard library; what a command needs is imported when it runs, so that `--help` answers at once.
"""
