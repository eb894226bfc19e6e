# Sourced by the other scripts.

# Prints that a check is skipped, and what to install for it. `.ci/test` repeats these lines at its end.
skip() { printf 'skipped: %s\n' "$1" | tee -a "${SKIPPED_LIST:-/dev/null}"; }
