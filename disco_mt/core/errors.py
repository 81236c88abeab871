"""The one exception that means "the user can fix this"."""


class UserError(Exception):
    """The message names the problem, what was expected, what was found and what to do.

    The command line prints it without a traceback and exits with code 2.
    """
