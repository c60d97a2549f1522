"""What goes wrong, by who can mend it."""


class DeepsliceError(Exception):
    """A call failed. `status` is the library's number for the kind."""

    def __init__(self, message, status=2):
        super().__init__(message)
        self.status = status


class InvalidInput(DeepsliceError, ValueError):
    """An argument, or a file, that is not what it must be."""


class NotFound(DeepsliceError, FileNotFoundError):
    """No such plan or file."""

    def __str__(self):
        return self.args[0]


class DoesNotFit(DeepsliceError):
    """Not with this plan, device, memory or launch."""


class RankLost(DeepsliceError):
    """Another rank has failed."""


_KINDS = {3: InvalidInput, 15: InvalidInput, 5: NotFound, 8: DoesNotFit,
          9: DoesNotFit, 12: DoesNotFit, 4: RankLost, 10: RankLost,
          14: RankLost}


def error_of(status, message):
    return _KINDS.get(status, DeepsliceError)(message, status)
