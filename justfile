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

# App and server together for an hour: no word is lost, and memory does not grow.
soak *args:
    python -m benchmarks.soak {{args}}

# The pictures and snapshots of the terminal app, made anew.
shots:
    UPDATE_SNAPSHOTS=1 pytest tests/tui/test_snapshots.py
    python -m tools.screenshots
    python -m tools.moving_picture

# The manual page, and the generated tables of README.md and docs/.
pages:
    python -m tools.manual_page > share/man/man1/srbwriter.1
    python -m tools.pages
