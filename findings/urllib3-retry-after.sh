#!/usr/bin/env bash
# urllib3: a plain request sleeps for `Retry-After`, three times, whatever its time-out is
#
# Guess: without a retry policy, a response with 429 is returned like any other, and the time-out
# bounds the call.
# Behaviour: a GET that is answered with 413, 429 or 503 and `Retry-After` is sent again after that
# time, three times, and the fourth response is returned. The time-out bounds each attempt, and not
# the time between them. Without the header, the same 429 is returned at once.
# Version: urllib3 2.8.0 (of PyPI).
# Here: `Retry-After` of leaparray-tower delays such a client by three times its value, and one call
# of it is up to four refusals.
. "$(dirname "$0")/lib.sh"

python_packages urllib3==2.8.0

program() { python_program <<'END'; }
import http.server, threading, time
import urllib3

requests = []

class Handler(http.server.BaseHTTPRequestHandler):
    """Answers `/STATUS/SECONDS` with the status, and with Retry-After unless there are none."""

    def do_GET(self):
        requests.append(self.path)
        status, seconds = self.path.split("/")[1:]
        self.send_response(int(status))
        if seconds:
            self.send_header("Retry-After", seconds)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()

slept = []
time.sleep = slept.append
paths = ["GET /429/", "GET /429/60", "GET /503/60", "GET /500/60", "POST /429/60"]
for method, path in map(str.split, paths):
    requests.clear()
    slept.clear()
    url = f"http://127.0.0.1:{server.server_port}{path}"
    status = urllib3.PoolManager().request(method, url, timeout=30).status
    print(f"{method} {path}: returned {status} after {len(requests)} requests, slept {sum(slept)} s")
END

expect program <<'END'
GET /429/: returned 429 after 1 requests, slept 0 s
GET /429/60: returned 429 after 4 requests, slept 180 s
GET /503/60: returned 503 after 4 requests, slept 180 s
GET /500/60: returned 500 after 1 requests, slept 0 s
POST /429/60: returned 429 after 1 requests, slept 0 s
END
