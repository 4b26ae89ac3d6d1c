"""Convert a configuration of rl_games: ``python -m skrl_shared_cache.rl_games convert cfg.yaml > skrl.yaml``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from skrl_shared_cache.rl_games.conversion import Conversion, convert


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the configuration for skrl's Runner, and in comments above it what it cannot say.

    :param arguments: Arguments of the command line.

    :raises SystemExit: If the file cannot be read or converted (2).
    """
    parser = argparse.ArgumentParser(prog="python -m skrl_shared_cache.rl_games", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("convert", help="print rl_games' configuration as one for skrl's Runner")
    command.add_argument("file", help="rl_games' YAML file")
    command.add_argument("--num-envs", type=int, help="number of environments, where num_actors does not say it")
    chosen = parser.parse_args(arguments)
    try:
        import yaml
    except ImportError:
        command.error("reading and writing YAML needs PyYAML: pip install pyyaml")
    try:
        with open(chosen.file) as file:
            config = yaml.safe_load(file)
        conversion = convert(config, num_envs=chosen.num_envs)
    except (OSError, ValueError, yaml.YAMLError) as error:
        command.error(str(error))
    print(_comments(conversion), end="")
    print(yaml.safe_dump(conversion.config, sort_keys=False), end="")
    if conversion.notes.not_mapped:
        print("not everything could be mapped: see the comments at the top", file=sys.stderr)


def _comments(conversion: Conversion) -> str:
    notes = conversion.notes
    titles = {
        "Not mapped: skrl's configuration cannot say": notes.not_mapped,
        "Mapped, but not the same": notes.different,
        "Left out, without effect on the training": notes.no_effect,
    }
    lines = [
        line for title, entries in titles.items() if entries for line in (f"{title}:", *(f"  {e}" for e in entries))
    ]
    return "".join(f"# {line}\n" for line in lines)


if __name__ == "__main__":
    main()
