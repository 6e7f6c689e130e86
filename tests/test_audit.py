"""The search for known weaknesses in the packages of a release: it passes only where it could look."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

AUDIT = Path(__file__).parent.parent / ".ci" / "audit"

# Makes an environment whose programs answer as the real ones do. KNOWN has a line for each weakness that the
# database names; "unreachable" stands for an index without a database.
PYTHON = r"""#!/bin/sh
bin="$3/bin"
mkdir -p "$bin"
printf '#!/bin/sh\necho diskcache==5.6.3\n' >"$bin/pip"
printf '#!/bin/sh\nprintf %%s '\''{"name": "llama_cpp_python"}'\'' >"$4"\n' >"$bin/cyclonedx-py"
cat >"$bin/pip-audit" <<'PROGRAM'
#!/bin/sh
case "$KNOWN" in *unreachable*) echo "Dependency not found and could not be audited" >&2
  case "$*" in *--strict*) exit 1 ;; *) exit 0 ;; esac ;; esac
for word in $KNOWN; do
  case "$*" in *"--ignore-vuln $word"*) ;; *) echo "$word"; exit 1 ;; esac
done
echo "No known vulnerabilities found"
PROGRAM
chmod +x "$bin"/*
"""


@pytest.mark.parametrize(
    ("known", "passes", "words"),
    [
        ("CVE-2025-69872", True, "no weakness is known but CVE-2025-69872 (diskcache, which is not used)"),
        ("CVE-2025-69872 CVE-2099-1", False, "a weakness was found, or a package could not be looked up"),
        ("CVE-2099-1", False, "a weakness was found"),
        ("unreachable", False, "could not be looked up"),
        ("", False, "the database does not name CVE-2025-69872 (diskcache): it was not asked"),
    ],
)
def test_the_audit_fails_where_it_could_not_look(
    known: str, passes: bool, words: str, tmp_path: Path
) -> None:
    python = tmp_path / "python3"
    python.write_text(PYTHON, "utf-8")
    python.chmod(0o755)
    done = subprocess.run(
        [AUDIT, "srbwriter.whl", tmp_path / "packages.json"], capture_output=True, text=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "KNOWN": known},
    )  # fmt: skip
    assert (done.returncode == 0) is passes, done.stderr
    assert words in done.stdout + done.stderr
