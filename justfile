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

# A tag's workflow, tried here: the version, packages, one file, and a search for known weaknesses.
release: version packages onefile audit

empty := justfile_directory() / "build" / "release"
tools := empty / "tools" / "bin"
wheels := "--find-links " + empty / "wheels"
prompt := '"Once upon a time," -n 2 --max-tokens 8 --json'

# Changelog, manual page and TAG (or a tag of this commit) name the version of the program.
version tag=`git describe --tags --exact-match 2>/dev/null || true`:
    #!/usr/bin/env bash
    set -eu
    version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' srbwriter/version.py)
    grep -m 1 '^## ' CHANGELOG.md | grep -E "^## \[$version\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" \
      || { echo "CHANGELOG.md does not begin with $version and its date"; exit 1; }
    grep -q "\"version $version\"" share/man/man1/srbwriter.1 || { echo "the manual page is of another version"; exit 1; }
    [ -n "{{tag}}" ] || { echo "no tag here; that of $version is v$version"; exit 0; }
    [ "{{tag}}" = "v$version" ] || { echo "the tag is {{tag}}, and the program $version"; exit 1; }

# The sdist and the wheel; the wheel is tried on each Python that is here, the sdist on one.
packages:
    rm -rf dist && python3 -m venv --clear {{empty}}/tools
    {{tools}}/pip install --quiet build twine
    {{tools}}/python -m build --outdir dist .
    {{tools}}/twine check --strict dist/srbwriter-*
    ! unzip -p dist/*.whl '*/METADATA' | grep -nE '\]\((\.|docs|[A-Z]+\.md)' # links that lead nowhere on the index
    {{tools}}/pip wheel --quiet --no-deps --wheel-dir {{empty}}/wheels "$(grep -o 'llama-cpp-python==[^"]*' pyproject.toml)"
    for python in python3.11 python3.12 python3.13; do \
      if $python --version; then just try dist/*.whl $python || exit 1; else echo "not tried on $python"; fi; done
    just try dist/*.tar.gz

# What a new user does first with PACKAGE. llama.cpp is compiled once for all: its wheel is the same for each Python.
try package python="python3":
    {{python}} -m venv --clear {{empty}}/new
    {{empty}}/new/bin/pip install --quiet {{wheels}} {{package}}
    cd {{empty}} && HOME={{empty}} new/bin/srbwriter --version
    cd {{empty}} && HOME={{empty}} new/bin/srbwriter write {{prompt}} | grep -q '"branches"'
    test -s {{empty}}/new/share/man/man1/srbwriter.1

# diskcache, which llama-cpp-python brings, runs code from its cache folder; no cache of it is used here.
let_through := "CVE-2025-69872"

# All packages that the wheel in dist/ brings (an SBOM), and a search among them for known weaknesses.
audit:
    python3 -m venv --clear {{empty}}/new && {{empty}}/new/bin/pip install --quiet {{wheels}} dist/*.whl
    python3 -m venv --clear {{empty}}/tools
    {{tools}}/pip install --quiet 'cyclonedx-bom>=6,<8' 'pip-audit>=2.7,<3'
    mkdir -p sbom && {{tools}}/cyclonedx-py environment {{empty}}/new --output-file sbom/srbwriter.cdx.json
    {{empty}}/new/bin/pip freeze --exclude srbwriter >{{empty}}/packages.txt
    just search {{empty}}/packages.txt {{tools}}/pip-audit

# What does not find the weaknesses of an old Jinja has no data: that is said, and where CI is set it is an error.
[private]
search packages pip_audit:
    #!/usr/bin/env bash
    set -u
    audit="{{pip_audit}} --no-deps --disable-pip --progress-spinner off"
    if $audit -r <(echo jinja2==3.1.2) 2>&1 | grep -q 'Found .* known vulnerabilit'; then
      exec $audit --strict -r {{packages}} --ignore-vuln {{let_through}}
    fi
    echo "NOT SEARCHED for known weaknesses: pip-audit's data cannot be reached from here, so nothing is known of the" \
      "$(wc -l <{{packages}}) packages in {{packages}}." >&2
    [ -z "${CI:-}" ]

# One file with the program and all it needs but Python itself, for this interpreter's version and platform.
onefile file="dist/srbwriter.pyz":
    python3 -m venv --clear {{empty}}/tools && {{tools}}/pip install --quiet shiv
    mkdir -p dist && CMAKE_ARGS="${CMAKE_ARGS:-} -DCMAKE_PROJECT_llama_cpp_INCLUDE=$PWD/llama.cmake" \
      {{tools}}/shiv --console-script srbwriter --extend-pythonpath --compressed \
      --python "/usr/bin/env python3" --output-file {{file}} --quiet .
    cd {{empty}} && HOME={{empty}} {{absolute_path(file)}} write {{prompt}} | grep -q '"branches"'
    cd {{empty}} && HOME={{empty}} {{absolute_path(file)}} new One -o one.srbw
    cd {{empty}} && HOME={{empty}} {{absolute_path(file)}} export one.srbw -o one.docx
