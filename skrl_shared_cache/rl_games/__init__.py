"""From rl_games to skrl: configurations and checkpoints. Nothing here imports rl_games."""

from skrl_shared_cache.rl_games.checkpoint import load_checkpoint
from skrl_shared_cache.rl_games.conversion import Conversion, convert, convert_config
from skrl_shared_cache.rl_games.options import ConversionWarning

__all__ = ["Conversion", "ConversionWarning", "convert", "convert_config", "load_checkpoint"]
