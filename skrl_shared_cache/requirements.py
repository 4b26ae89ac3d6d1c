"""The versions of skrl and torch that the package was written for."""

from __future__ import annotations

import skrl
import torch
from packaging.version import Version


def check_requirements(skrl_version: str = skrl.__version__, torch_version: str = torch.__version__) -> None:
    """Check the installed versions.

    :param skrl_version: Version of skrl.
    :param torch_version: Version of torch.

    :raises ImportError: If one of them is not supported.
    """
    found = Version(skrl_version)
    if not Version("1.4.3") <= found < Version("3.0.dev0"):
        raise ImportError(
            f"skrl-shared-cache needs skrl >= 1.4.3 and < 3, found {skrl_version}: pip install 'skrl>=1.4.3,<3'"
        )
    if Version(torch_version) < Version("2.4.0a0"):
        raise ImportError(f"skrl-shared-cache needs torch >= 2.4, found {torch_version}: pip install 'torch>=2.4'")
