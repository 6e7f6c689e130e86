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

# Kills of the program, browsers, and servers of others.
slow *args:
    pytest -m slow {{args}}

# The tests, and how much of the program they run, line by line.
cover *args:
    pytest --cov {{args}}

# The pictures and snapshots of the terminal app, made anew.
shots:
    UPDATE_SNAPSHOTS=1 pytest tests/tui/test_snapshots.py
    python -m tools.screenshots

# The manual page, and the generated table of README.md.
pages:
    python -m tools.manual_page > share/man/man1/srbwriter.1
    python -m tools.pages

# Everything of a release, tried away from the checkout: packages, the list of what they bring, and one file.
release: packages audit onefile

empty := justfile_directory() / "build" / "release"
prompt := '"Once upon a time," -n 2 --max-tokens 8 --json'

# The sdist and the wheel, each tried in an empty environment.
packages:
    rm -rf dist && python3 -m venv --clear {{empty}}/tools
    {{empty}}/tools/bin/pip install --quiet build twine
    {{empty}}/tools/bin/python -m build --outdir dist .
    {{empty}}/tools/bin/twine check --strict dist/srbwriter-*
    ! unzip -p dist/*.whl '*/METADATA' | grep -nE '\]\((\.|docs|[A-Z]+\.md)' # links that lead nowhere on the index
    for package in dist/*.whl dist/*.tar.gz; do just try "$package" || exit 1; done

# What a new user does first with PACKAGE.
try package:
    python3 -m venv --clear {{empty}}/new
    {{empty}}/new/bin/pip install --quiet {{package}}
    cd {{empty}} && HOME={{empty}} new/bin/srbwriter --version
    cd {{empty}} && HOME={{empty}} new/bin/srbwriter write {{prompt}} | grep -q '"branches"'
    test -s {{empty}}/new/share/man/man1/srbwriter.1

# diskcache, which llama-cpp-python brings, runs code from its cache folder; no cache of it is used here.
let_through := "CVE-2025-69872"

# All packages that the wheel in dist/ brings (an SBOM), and a search among them for known weaknesses.
audit:
    python3 -m venv --clear {{empty}}/new && {{empty}}/new/bin/pip install --quiet dist/*.whl
    python3 -m venv --clear {{empty}}/tools
    {{empty}}/tools/bin/pip install --quiet 'cyclonedx-bom>=6,<8' 'pip-audit>=2.7,<3'
    mkdir -p sbom && {{empty}}/tools/bin/cyclonedx-py environment {{empty}}/new --output-file sbom/srbwriter.cdx.json
    {{empty}}/new/bin/pip freeze --exclude srbwriter >{{empty}}/packages.txt
    {{empty}}/tools/bin/pip-audit --strict --no-deps --disable-pip -r {{empty}}/packages.txt --ignore-vuln {{let_through}}

# One file with the program and all it needs but Python itself, for this interpreter's version and platform.
onefile file="dist/srbwriter.pyz":
    python3 -m venv --clear {{empty}}/tools && {{empty}}/tools/bin/pip install --quiet shiv
    mkdir -p dist && CMAKE_ARGS="${CMAKE_ARGS:-} -DCMAKE_PROJECT_llama_cpp_INCLUDE=$PWD/llama.cmake" \
      {{empty}}/tools/bin/shiv --console-script srbwriter --extend-pythonpath --compressed \
      --python "/usr/bin/env python3" --output-file {{file}} --quiet .
    cd {{empty}} && HOME={{empty}} {{absolute_path(file)}} write {{prompt}} | grep -q '"branches"'
    cd {{empty}} && HOME={{empty}} {{absolute_path(file)}} new One -o one.srbw
    cd {{empty}} && HOME={{empty}} {{absolute_path(file)}} export one.srbw -o one.docx
