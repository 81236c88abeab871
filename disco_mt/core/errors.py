"""The one exception that means "the user can fix this"."""


class UserError(Exception):
    """A user's mistake: the message names the thing, what was expected, what was found and what to do.

    The command line prints it without a traceback and exits with code 2.
    """
