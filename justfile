# What one types often. `pip install -e '.[dev]'` brings just along; each line works without it too.

# The gates that need no test: formatting, lint, types, import contracts, declared dependencies.
check:
    ruff format --check .
    ruff check .
    pyright
    lint-imports
    deptry .

# The tests, in several processes.
test *args:
    pytest {{args}}

# The tests and the marathons: long searches, grids of faults, browsers, and servers of others.
full *args:
    pytest --full {{args}}

# What can be said in a few minutes.
fast *args:
    pytest -m "not slow" {{args}}

# The tests, and how much of the program they run, line by line.
cover *args:
    pytest --cov {{args}}

# The pictures and snapshots of the terminal app, made anew.
shots:
    UPDATE_SNAPSHOTS=1 pytest tests/tui/test_snapshots.py
    python -m tools.screenshots

# The pages that the program writes itself, made anew.
pages:
    python -m tools.keys_page > docs/keys.md
    python -m tools.recommended_page
    python -m tools.reference
    python -m tools.sampling_page
