"""`python -m skrl_shared_cache.rl_games convert`: a YAML file in, one for skrl's Runner out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from skrl_shared_cache.rl_games import convert_config
from skrl_shared_cache.rl_games.__main__ import main

from ...processes import python
from . import cases


def written(cfg: Any, folder: Path) -> str:
    """Write a YAML file and return its path; skip the test without PyYAML."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (extra rl-games)")
    (folder / "cfg.yaml").write_text(yaml.safe_dump(cfg))
    return str(folder / "cfg.yaml")


def printed(capsys: Any, *arguments: str) -> tuple[Any, str]:
    """Return what the printed YAML says, and its comments."""
    import yaml

    main(["convert", *arguments])
    text = capsys.readouterr().out
    return yaml.safe_load(text), "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))


@pytest.mark.parametrize("kind", cases.ACTIONS)
def test_the_file_says_what_convert_config_returns(kind: str, tmp_path: Path, capsys: Any) -> None:
    cfg = cases.config(kind, config__lr_schedule="linear", network__mlp__activation="swish")
    path = written(cfg, tmp_path)
    assert printed(capsys, path)[0] == convert_config(cfg)
    main(["convert", path])
    assert "&id" not in capsys.readouterr().out  # no anchors: for people to read and to change


def test_the_comments_list_what_could_not_be_mapped(tmp_path: Path, capsys: Any) -> None:
    cfg = cases.config(config__weight_decay=0.01, config__clip_value=True, config__score_to_win=500)
    comments = printed(capsys, written(cfg, tmp_path))[1]
    sections = comments.split("# Mapped, but not the same:\n")
    assert "#   params.config.weight_decay (0.01): skrl's Adam has none\n" in sections[0]
    assert "#   params.config.clip_value (True): " in sections[1]
    assert "#   params.config.score_to_win (500): " in sections[1].partition("# Left out")[2]


def test_the_number_of_environments_is_an_argument(tmp_path: Path, capsys: Any) -> None:
    path = written(cases.config(config__num_actors=-1), tmp_path)
    assert printed(capsys, path, "--num-envs", "64")[0]["agent"]["mini_batches"] == 32


@pytest.mark.parametrize("cfg", [cases.config(config__num_actors=-1), [1, 2], "text"])
def test_what_cannot_be_converted_ends_with_the_reason(cfg: Any, tmp_path: Path, capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["convert", written(cfg, tmp_path)])
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_a_file_that_is_not_there_ends_with_the_reason(tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("yaml", reason="PyYAML is not installed (extra rl-games)")
    with pytest.raises(SystemExit):
        main(["convert", str(tmp_path / "none.yaml")])
    assert "No such file" in capsys.readouterr().err


def test_without_pyyaml_the_remedy_is_named(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(SystemExit):
        main(["convert", str(tmp_path / "cfg.yaml")])
    assert "pip install pyyaml" in capsys.readouterr().err


def test_it_runs_as_a_module(tmp_path: Path) -> None:
    path = written(cases.config(), tmp_path)
    code = f"import sys; sys.path[:] = {sys.path!r}; sys.argv[1:] = ['convert', {path!r}]; import runpy; "
    code += "runpy.run_module('skrl_shared_cache.rl_games', run_name='__main__', alter_sys=True)"
    assert "class: GaussianMixin" in python("-c", code)


def test_importing_it_imports_neither_rl_games_nor_yaml() -> None:
    code = f"import sys; sys.path[:] = {sys.path!r}; import skrl_shared_cache.rl_games; print(*sys.modules)"
    assert not {"rl_games", "yaml"} & set(python("-c", code).split())


def test_the_core_does_not_import_it() -> None:
    code = f"import sys; sys.path[:] = {sys.path!r}; import skrl_shared_cache; print(*sys.modules)"
    assert "skrl_shared_cache.rl_games" not in python("-c", code).split()
