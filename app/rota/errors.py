"""The errors that an operator can meet, each with the exit code it deserves."""

EXIT_FAILED = 1
# sysexits' EX_CONFIG. The units name it in RestartPreventExitStatus=, because
# starting again cannot mend a wrong setting.
EXIT_CONFIG = 78


class RotaError(Exception):
    """Something an operator can act on; the message says what to do."""

    exit_code = EXIT_FAILED


class ConfigurationError(RotaError):
    """The program cannot run as it is set up, and a restart will not help."""

    exit_code = EXIT_CONFIG


class SettingsError(ConfigurationError):
    """One or more settings are wrong."""

    def __init__(self, problems: list[str]) -> None:
        """Carry one line for each problem, in the order they were found."""
        super().__init__("\n".join(problems))
        self.problems = problems


class KeyFileError(ConfigurationError):
    """A key file is missing, empty, or readable by others."""


class SchemaError(ConfigurationError):
    """The database's schema is not one that this program may use."""


class InstanceError(ConfigurationError):
    """Another process already is the one process of a SQLite hub."""


class UnreachableError(RotaError):
    """The database cannot be reached or cannot be used just now; it is worth trying again."""


class BusyError(RotaError):
    """Someone else holds what this needs; it is worth trying again."""


class InputError(RotaError):
    """What was given cannot be used: the message says why, `remedy` what to give."""

    def __init__(self, message: str, remedy: str) -> None:
        """Carry both apart; together they are the message of a command."""
        super().__init__(message)
        self.remedy = remedy


class NotFoundError(InputError):
    """What was named is not there."""


class ConflictError(InputError):
    """What was asked does not go with how things stand."""


class FencedError(RotaError):
    """An effect carries an older (generation, epoch) than its receiver has seen."""


class BackupError(RotaError):
    """A backup could not be made, or is not what it says it is."""


class TlogError(RotaError):
    """The transparency log cannot be used as asked."""


class MalformedError(TlogError):
    """Something that came from elsewhere is not what it must be, byte for byte."""


class SignatureError(TlogError):
    """A signature is missing or does not fit."""


class ProofError(TlogError):
    """A proof does not prove what it says."""


class DamagedError(TlogError):
    """The tlog's own files are not what was once written; a person must look."""


class QuorumError(TlogError):
    """Too few witnesses have cosigned."""
