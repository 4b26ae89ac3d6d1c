"""Run a script as ``python script.py`` does, with skrl's Runner and instantiator producing cached models.

Usage: ``python -m skrl_shared_cache script.py [argument ...]``
"""

from __future__ import annotations

import os
import sys
import types
from typing import NoReturn

_USAGE = "usage: python -m skrl_shared_cache script.py [argument ...]"


def main(arguments: list[str]) -> None:
    """Run a script under :py:func:`skrl_shared_cache.use`, in the place of this program.

    :param arguments: Path of the script, and its arguments.

    :raises SystemExit: If there is no script to read (2), or by the script itself.
    """
    if arguments[:1] in (["-h"], ["--help"]):
        print(f"{_USAGE}\n\nRun a script with skrl's Runner and shared_model producing cached models.")
        return
    if not arguments or arguments[0].startswith("-"):
        _give_up(f"the first argument must be a script, not {arguments[0] if arguments else 'nothing'}")
    path = os.path.abspath(arguments[0])
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        _give_up(f"can't open {path!r}: {error.strerror}")

    from skrl_shared_cache.substitution import use

    use()
    sys.argv[:] = arguments
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    # not runpy.run_path, which takes the module away before threads and exit handlers of the script have ended
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    module.__file__ = path
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)


def _give_up(why: str) -> NoReturn:
    print(f"{_USAGE}\nerror: {why}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
