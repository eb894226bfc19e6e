# Sourced by the other scripts.

# Says what is not checked, and what would have to be installed. `.ci/test` lists it at its end.
skip() { printf 'skipped: %s\n' "$1" | tee -a "${SKIPPED_LIST:-/dev/null}"; }
