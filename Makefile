# setup once, then: make demo | test | lint | laws | bench | reproduce | results | docs | clean
# All write to runs/, which git ignores; `make results` alone renews the committed files and tables.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

LAWS := -m "slow or not slow" tests/laws tests/dynamics/test_mujoco.py

.PHONY: setup demo test lint laws bench reproduce results docs clean

setup: .venv/.installed

.venv/.installed: pyproject.toml
	@$(PYTHON) -m venv .venv
	@$(PIP) install --editable '.[dev]'
	@touch $@

.venv/.docs: .venv/.installed
	@$(PIP) install --editable '.[docs]'
	@touch $@

demo: setup
	@$(BIN)/backflip demo

lint: setup
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary

test: lint
	@$(BIN)/pytest --quiet

laws: setup
	@$(BIN)/pytest --quiet $(LAWS) --laws runs/laws.json

bench: setup
	@$(BIN)/backflip bench
	@$(BIN)/python benchmarks/kernels.py

reproduce: laws
	@$(BIN)/pytest --quiet -m slow
	@$(BIN)/backflip gradients
	@$(BIN)/backflip run all
	@$(BIN)/backflip verify --out runs

results: setup
	@$(BIN)/pytest --quiet $(LAWS) --laws results/laws.json --laws-page docs/physics.md
	@$(BIN)/backflip gradients --out results --page docs/gradients.md
	@$(BIN)/backflip shapes --out results --page docs/shapes.md
	@$(BIN)/backflip problems --out results --page docs/solvers.md
	@$(BIN)/backflip horizons --out results --page docs/gradients.md
	@$(BIN)/backflip run all --out results
	@$(BIN)/backflip bench --out results
	@$(BIN)/python benchmarks/kernels.py --out results

docs: .venv/.docs
	@$(BIN)/sphinx-build -q -W --keep-going docs site
	@echo "docs: site/index.html"

clean:
	@rm -rf .venv site build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
