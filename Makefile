# Two environments, one per line of skrl. Each holds an editable install that a stamp file keeps up to date.
PYTHON ?= python3
PYTEST_ARGS ?=

SKRL_2 := .venv
SKRL_1 := .venv-skrl-1.4
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
SOURCES = $(wildcard skrl_shared_cache envs examples benchmarks tests)

# mypy cannot read the stubs of isaacgym
PYRIGHT_SOURCES := envs/skrl_vec_envs/views/protocols.py envs/skrl_vec_envs/views/skrl.py

# One thread per process: OpenMP teams that share cores slow each other down by more than they gain.
PYTEST := -m pytest -n 2
$(SKRL_2)/.installed: EXTRAS := envs,plots,rl-games,dev
$(SKRL_1)/.installed: EXTRAS := envs,plots,rl-games,test
test-skrl-2 test-skrl-1.4: export OMP_NUM_THREADS := 1

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test check test-skrl-2 test-skrl-1.4 format bench-pair bench-omni bench-rl-games bench-quality bench-snake train-snake agents-table gpu-check clean

help: ## list the targets
	@echo 'make [PYTHON=python3] TARGET'
	@sed -nE 's/^([a-z0-9.-]+):[^#]*## (.*)/  \1\t\2/p' Makefile | expand -t 18

demo: $(SKRL_2)/.installed ## train PPO on the snake without and with the cache, about two minutes
	$(SKRL_2)/bin/python examples/demo.py

test: check test-skrl-2 test-skrl-1.4 ## check, then the whole suite on both lines of skrl [PYTEST_ARGS="-k snake"]

check: $(SKRL_2)/.installed ## lint, formatting and types
	$(SKRL_2)/bin/ruff check $(SOURCES)
	$(SKRL_2)/bin/black --quiet --check --diff $(SOURCES)
	$(SKRL_2)/bin/isort --check --diff $(SOURCES)
	$(SKRL_2)/bin/mypy $(SOURCES)
	$(SKRL_2)/bin/basedpyright --level error $(PYRIGHT_SOURCES)

test-skrl-2: $(SKRL_2)/.installed ## the suite on skrl 2.x alone
	$(SKRL_2)/bin/python $(PYTEST) $(PYTEST_ARGS)

test-skrl-1.4: $(SKRL_1)/.installed ## the suite on skrl 1.4 alone
	$(SKRL_1)/bin/python $(PYTEST) $(PYTEST_ARGS)

format: $(SKRL_2)/.installed ## rewrite the sources as check wants them
	$(SKRL_2)/bin/ruff check --fix $(SOURCES)
	$(SKRL_2)/bin/black --quiet $(SOURCES)
	$(SKRL_2)/bin/isort --quiet $(SOURCES)

bench-pair: $(SKRL_2)/.installed ## time policy.act + value.act, plain and cached
	$(SKRL_2)/bin/python benchmarks/pair_cost.py

bench-omni: $(SKRL_2)/.installed ## time the views of the vectorized env, and the hand-over between threads
	$(SKRL_2)/bin/python benchmarks/omni_views.py

bench-rl-games: $(SKRL_2)/.installed ## time rl_games and skrl on the same PPO
	$(SKRL_2)/bin/python benchmarks/rl_games_table.py --output results/rl-games

bench-quality: $(SKRL_2)/.installed ## compare what rl_games and skrl learn, about 12 minutes on two cores
	$(SKRL_2)/bin/python benchmarks/rl_games_quality.py --output results/rl-games-quality

bench-snake: $(SKRL_2)/.installed ## time the snake beside its peers, in their own environments
	$(SKRL_2)/bin/python benchmarks/snake_speed.py

train-snake: $(SKRL_2)/.installed ## train a snake for 15 minutes, save policy and curve
	$(SKRL_2)/bin/python examples/train_snake.py

agents-table: $(SKRL_2)/.installed $(SKRL_1)/.installed ## measure the tables of docs/agents.md on both lines of skrl
	$(SKRL_2)/bin/python benchmarks/agents_table.py
	$(SKRL_1)/bin/python benchmarks/agents_table.py

gpu-check: $(SKRL_2)/.installed ## the checks that need a GPU; says so where there is none
	$(SKRL_2)/bin/python benchmarks/gpu_check.py

clean: ## remove the environments, the caches and the built packages
	rm -rf $(SKRL_2) $(SKRL_1) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find $(SOURCES) -name __pycache__ -prune -exec rm -rf {} +

$(SKRL_2)/.installed: constraints-skrl-2.txt
$(SKRL_1)/.installed: constraints-skrl-1.4.txt

# torch comes first and alone: asked for by way of another package, a looser torch may bring gigabytes of CUDA.
%/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "error: Python >= 3.10 is needed," \
	  "but '$(PYTHON)' is: $$($(PYTHON) --version 2>&1). Name another one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "error: '$(PYTHON)' has no venv module. Install it" \
	  "(Debian, Ubuntu: apt install python3-venv) or name another Python: make PYTHON=python3.12" >&2; exit 1; }
	@echo '== $*: environment of $(PYTHON)'
	@$(PYTHON) -m venv $*
	@echo '== $*: torch (minutes, when it has to be downloaded)'
	@$*/bin/python $(PIP_INSTALL) -c $(filter constraints-skrl-%,$^) torch hatchling
	@echo '== $*: skrl-shared-cache[$(EXTRAS)]'
	@$*/bin/python $(PIP_INSTALL) --no-build-isolation -c $(filter constraints-skrl-%,$^) -e '.[$(EXTRAS)]'
	@touch $@
