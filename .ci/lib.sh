# shellcheck shell=bash
# Sourced by the other scripts.

# Prints the head of the script, and ends it: for arguments that it does not know.
usage() {
  sed -n '2,/^set/s/^# \{0,1\}//p' ".ci/$(basename "$0")" >&2
  exit 2
}

# Checks that were skipped, a line each. A script that calls others shares its list with them.
if [ -z "${SKIPPED_LIST:-}" ]; then
  SKIPPED_LIST=$(mktemp)
  export SKIPPED_LIST
  trap 'stop; rm -f "$SKIPPED_LIST" "$SKIPPED_LIST".*' EXIT
fi

# Stops what still runs in the background, with all that it has started.
beside=()
stop() {
  local running
  for running in "${beside[@]}"; do kill -- "-${running#* }" 2>/dev/null || true; done
}

# Announces a step, with the seconds since the start, and with the processor seconds until now.
step() {
  local times="$SKIPPED_LIST.times.$BASHPID"
  # Not in a subshell, which has no times of its own.
  times >"$times"
  printf '\n== %s (%d s, %d s of processor time)\n' "$*" "$SECONDS" \
    "$(awk -F '[ms ]+' 'END { print int(60 * $1 + $2 + 60 * $3 + $4) }' "$times")"
}

# Without line tables, which only backtraces read: they take a third of the time of a test's build.
export CARGO_PROFILE_DEV_DEBUG=0

# Incremental data is 7 GB, and takes time to write. It would save time only in a later run.
export CARGO_INCREMENTAL=0

# Runs cargo with lints that are errors. Clippy is a compiler with more lints. Here it also builds
# what is then run, so that no crate is compiled once to be linted and again to be tested. It leaves
# out optimizations of MIR, so nothing that is measured is built by it.
linted() { RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings cargo "$@"; }

# The target folder of the workspace. Packages of other workspaces are built in it as well if their
# profile is the same: most of their dependencies are there.
built=${CARGO_TARGET_DIR:-target}

# The packages that are built with all features, in each script, so that all share one build: another
# selection gives dependencies other features. The formats that leaparray-serde-formats tries are 25
# crates, and leaparray-loom-tests is empty without `--cfg loom`; .ci/full compiles both.
with_all_features=(--workspace --exclude leaparray-serde-formats --exclude leaparray-loom-tests --all-features --locked)

# Prints that a check is skipped, and what to install for it. The list is printed at the end.
skip() { printf 'skipped: %s\n' "$1" | tee -a "$SKIPPED_LIST"; }

list_skipped() {
  if [ -s "$SKIPPED_LIST" ]; then cat "$SKIPPED_LIST"; else echo "nothing skipped"; fi
}

# Runs a function in the background, as a group of processes of its own. `finish` prints its output.
beside() {
  set -m
  "$1" >"$SKIPPED_LIST.beside.$1" 2>&1 &
  set +m
  beside+=("$1 $!")
}

# Waits for what runs in the background, and fails if something of it failed.
finish() {
  local name process failed=""
  for running in "${beside[@]}"; do
    read -r name process <<<"$running"
    wait "$process" || failed+=" $name"
    cat "$SKIPPED_LIST.beside.$name"
  done
  beside=()
  if [ -n "$failed" ]; then
    echo "FAILED:$failed" >&2
    return 1
  fi
}
