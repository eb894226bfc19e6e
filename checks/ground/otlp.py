"""Sends the counts of the service of this folder to VictoriaMetrics by OTLP, and prints a row of
docs/COMPATIBILITY.md: whether what it is asked for then is what the service has counted.

    otlp.py SERVICE VICTORIAMETRICS VERSION
"""

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

REQUESTS = 250
PATIENCE = 30.0


def fetch(url, body=None):
    with urllib.request.urlopen(url, data=body, timeout=20) as response:
        return response.read()


def number(server, query):
    """The only number that a query gives; None if it gives none."""
    answer = json.loads(fetch(f"{server}/api/v1/query?" + urllib.parse.urlencode({"query": query})))
    results = answer["data"]["result"]
    return float(results[0]["value"][1]) if len(results) == 1 else None


def wait_for(server, query, expected):
    end = time.monotonic() + PATIENCE
    while (seen := number(server, query)) != expected:
        if time.monotonic() > end:
            return f"{query} is {seen}, not {expected}"
        time.sleep(0.1)
    return None


def differences(service, server):
    for _ in range(REQUESTS):
        fetch(f"{service}/done")
    fetch(f"{server}/opentelemetry/v1/metrics", fetch(f"{service}/otlp"))
    done = '"http.route"="/done"'
    for query, expected in [
        (f'{{"http.server.request.duration_count",{done}}}', REQUESTS),
        # The buckets of an exponential histogram are ranges, without loss.
        (f'sum({{"http.server.request.duration_bucket",{done}}})', REQUESTS),
        (f'{{"leaparray.success",{done}}}', REQUESTS),
        (f'{{"http.server.active_requests",{done}}}', 0),
    ]:
        yield wait_for(server, query, expected)
    quantile = number(server, f'histogram_quantile(0.5, {{"http.server.request.duration_bucket",{done}}})')
    yield None if quantile and 0 < quantile < 1 else f"the median is {quantile}"


def main():
    program, victoria, version = sys.argv[1:]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        service = subprocess.Popen([program], stdout=subprocess.PIPE, text=True)
        stack.callback(service.wait)
        stack.callback(service.kill)
        address = service.stdout.readline().strip()
        server = subprocess.Popen(
            [victoria, f"-storageDataPath={folder}", f"-httpListenAddr=127.0.0.1:{port}",
             "-search.latencyOffset=0s", "-search.disableCache"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        stack.callback(server.wait)
        stack.callback(server.kill)
        url = f"http://127.0.0.1:{port}"
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                fetch(f"{url}/health")
                break
            time.sleep(0.1)
        try:
            found = [it for it in differences(f"http://{address}", url) if it]
        except urllib.error.HTTPError as error:
            found = [f"it answers {error.code}"]
    print(f"| VictoriaMetrics, OTLP | {version} | {'; '.join(found) or 'as counted'} |")


main()
