#!/usr/bin/env bash
# etcd: a watch from a revision that the server does not have yet is taken, and skips changes
#
# Guess: a client that has seen revision 6 asks a server that has lost its data for the changes from
# 7 on. It gets an error, since a read at revision 6 gets one.
# Behaviour: the watch begins as any other. The next changes, up to revision 6, are not told, and
# neither is the loss. The first answer has the revision of the server, which is the only sign.
# Version: etcd 3.4.23 (Debian 12).
# Here: the etcd source of leaparray-rules watches from no revision, and reads the keys each time
# that a watch begins, and at each interval as well.
. "$(dirname "$0")/lib.sh"

debian_package etcd-server=3.4.23-4+b4

free_port() { python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

post() { curl --silent --max-time 10 --data "$2" "$url/v3/$1"; }
is_up() { post maintenance/status '{}' | grep -q '"leader"'; }

# Starts a server without data.
start_etcd() {
  url=http://127.0.0.1:$(free_port)
  local peer data
  peer=http://127.0.0.1:$(free_port)
  data=$(mktemp -d "$WORK/data-XXXXXX")
  root/usr/bin/etcd --data-dir "$data" --listen-client-urls "$url" --advertise-client-urls "$url" \
    --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" \
    --initial-cluster "default=$peer" > "$data.log" 2>&1 &
  SERVERS+=($!)
  within_a_minute is_up || cannot "start etcd"
}

key=$(base64 <<< key)
revision() { grep -o '"revision":"[0-9]*"' | head -n 1; }
put() { post kv/put "{\"key\": \"$key\", \"value\": \"$(base64 <<< "$1")\"}" | revision; }
values() { grep -o '"value":"[^"]*"' "$1" | cut -d '"' -f 4 | while read -r it; do base64 -d <<< "$it"; done; }
is_told() { values watch | grep -qx "$1"; }

program() {
  start_etcd
  echo "the first server:"
  for number in 1 2 3 4 5; do put "old $number"; done
  stop_servers

  start_etcd
  echo "a server without data, read at 6:"
  post kv/range "{\"key\": \"$key\", \"revision\": 6}" | grep -o '"error":"[^"]*"'
  echo "a watch from 7 on:"
  curl --silent --no-buffer --max-time 60 "$url/v3/watch" \
    --data "{\"create_request\": {\"key\": \"$key\", \"start_revision\": 7}}" > watch &
  SERVERS+=($!)
  within_a_minute grep -q '"created":true' watch
  revision < watch
  for number in 1 2 3 4 5 6; do put "new $number"; done
  within_a_minute is_told "new 6"
  echo "it tells:"
  values watch
  echo "cancelled: $(grep -c '"canceled":true' watch)"
}

expect program <<'END'
the first server:
"revision":"2"
"revision":"3"
"revision":"4"
"revision":"5"
"revision":"6"
a server without data, read at 6:
"error":"etcdserver: mvcc: required revision is a future revision"
a watch from 7 on:
"revision":"1"
"revision":"2"
"revision":"3"
"revision":"4"
"revision":"5"
"revision":"6"
"revision":"7"
it tells:
new 6
cancelled: 0
END
