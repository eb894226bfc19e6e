"""Asks the program by grpcio, with the messages of envoy-data-plane, and over HTTP."""

import json
import pathlib
import sys
import time
import urllib.error
import urllib.request

import grpc
from envoy_data_plane.envoy.extensions.common.ratelimit.v3 import (
    RateLimitDescriptor,
    RateLimitDescriptorEntry,
)
from envoy_data_plane.envoy.service.rate_limit_quota.v3 import (
    BucketId,
    RateLimitQuotaResponse,
    RateLimitQuotaUsageReports,
    RateLimitQuotaUsageReportsBucketQuotaUsage,
)
from envoy_data_plane.envoy.service.ratelimit.v3 import (
    RateLimitRequest,
    RateLimitResponse,
    RateLimitResponseCode,
)
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

RLS = "envoy.service.ratelimit.v3.RateLimitService"
RLQS = "envoy.service.rate_limit_quota.v3.RateLimitQuotaService"

address, http, config = sys.argv[1:]
channel = grpc.insecure_channel(address)
should_rate_limit = channel.unary_unary(
    f"/{RLS}/ShouldRateLimit", bytes, RateLimitResponse.parse
)
stream = channel.stream_stream(
    f"/{RLQS}/StreamRateLimitQuotas", bytes, RateLimitQuotaResponse.parse
)


def request(domain, *entries, hits=0):
    entries = [RateLimitDescriptorEntry(key=key, value=value) for key, value in entries]
    descriptors = [RateLimitDescriptor(entries=entries)] if entries else []
    return RateLimitRequest(domain=domain, descriptors=descriptors, hits_addend=hits)


def refused(call, code, text):
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == code, error
        assert text in error.details(), error.details()
    else:
        raise AssertionError("not refused")


# RLS: two in an hour.
for remaining in (1, 0):
    answer = should_rate_limit(request("shop", ("once", "a")))
    assert answer.overall_code == RateLimitResponseCode.OK, answer
    (status,) = answer.statuses
    assert status.limit_remaining == remaining, answer
    limit = status.current_limit
    assert (limit.requests_per_unit, int(limit.unit), limit.name) == (2, 3, "twice"), answer
answer = should_rate_limit(request("shop", ("once", "a")))
assert answer.overall_code == RateLimitResponseCode.OVER_LIMIT, answer
headers = {header.key: header.value for header in answer.response_headers_to_add}
assert headers["RateLimit-Limit"] == "2" and headers["RateLimit-Remaining"] == "0", headers
# The whole limit is left after 51 buckets of a 50th of the hour.
assert 3600 <= int(headers["RateLimit-Reset"]) <= 3672, headers
# Another value has a limit of its own, and what is unknown has none.
assert should_rate_limit(request("shop", ("once", "b"))).overall_code == RateLimitResponseCode.OK
for domain, key in (("shop", "unknown"), ("mall", "once")):
    for _ in range(3):
        answer = should_rate_limit(request(domain, (key, "a")))
        assert answer.overall_code == RateLimitResponseCode.OK, answer
# More hits than the limit are refused, and not charged.
assert (
    should_rate_limit(request("shop", ("once", "c"), hits=3)).overall_code
    == RateLimitResponseCode.OVER_LIMIT
)
assert should_rate_limit(request("shop", ("once", "c"))).statuses[0].limit_remaining == 1

# A quota, until a 50th of the hour ends. It is charged at once, and goes with no other hits.
end = time.monotonic() + 10
while (status := should_rate_limit(request("shop", ("own", "a"))).statuses[0]).quota is None:
    assert time.monotonic() < end, "at most 2 s of 72 s have no quota"
    time.sleep(0.1)
quota = status.quota
assert 2 <= quota.requests <= 100, quota
assert -1 <= quota.valid_until.timestamp() - time.time() <= 72, quota
assert status.limit_remaining <= 1000 - quota.requests, status
after = should_rate_limit(request("shop", ("own", "a"), hits=2)).statuses[0]
assert after.quota is None and after.limit_remaining == status.limit_remaining - 2, after

# Bad input.
invalid = grpc.StatusCode.INVALID_ARGUMENT
refused(lambda: should_rate_limit(request("", ("once", "a"))), invalid, "no domain")
refused(lambda: should_rate_limit(request("shop")), invalid, "no descriptors")
huge = request("shop", ("once", "x" * 300_000))
refused(lambda: should_rate_limit(huge), grpc.StatusCode.OUT_OF_RANGE, "too large")
assert should_rate_limit(request("shop", ("once", "d"))).statuses[0].limit_remaining == 1

# RLQS.


def report(domain, entries, allowed=0, denied=0):
    usage = RateLimitQuotaUsageReportsBucketQuotaUsage(
        bucket_id=BucketId(bucket=entries),
        num_requests_allowed=allowed,
        num_requests_denied=denied,
    )
    return RateLimitQuotaUsageReports(domain=domain, bucket_quota_usages=[usage])


def reports(*messages, for_seconds=0):
    yield from messages
    time.sleep(for_seconds)


answers = stream(reports(report("shop", {"rlqs": "orders"}, denied=1), for_seconds=30))
first = next(answers).bucket_action[0]
assert first.bucket_id.bucket == {"rlqs": "orders"}, first
assignment = first.quota_assignment_action
assert assignment.assignment_time_to_live.total_seconds() == 3, assignment
bucket = assignment.rate_limit_strategy.token_bucket
assert 1 <= bucket.max_tokens <= 20, bucket
rate = bucket.tokens_per_fill / bucket.fill_interval.total_seconds()
assert bucket.max_tokens + rate <= 401, bucket
# It is sent again before it ends.
begin = time.monotonic()
assert next(answers).bucket_action[0].quota_assignment_action is not None
assert time.monotonic() - begin < 3
answers.cancel()
refused(lambda: next(stream(reports(report("", {"a": "b"})))), invalid, "needs a domain")
refused(lambda: next(stream(reports(report("shop", {})))), invalid, "needs a key")

# Health and reflection.
health = health_pb2_grpc.HealthStub(channel)
for name in ("", RLS, RLQS):
    answer = health.Check(health_pb2.HealthCheckRequest(service=name))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING, name
database = ProtoReflectionDescriptorDatabase(channel)
assert {RLS, RLQS} <= set(database.get_services()), database.get_services()
file = database.FindFileContainingSymbol(RLS)
assert file.service[0].method[0].name == "ShouldRateLimit", file


# HTTP.
def post(body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    call = urllib.request.Request(f"http://{http}/json", data, headers)
    try:
        with urllib.request.urlopen(call) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        text = error.read().decode()
        return error.code, json.loads(text) if text.startswith("{") else text


body = {"domain": "shop", "descriptors": [{"entries": [{"key": "once", "value": "http"}]}]}
status, answer = post(body)
assert (status, answer["overallCode"]) == (200, "OK"), answer
limit = answer["statuses"][0]["currentLimit"]
assert limit == {"name": "twice", "requestsPerUnit": 2, "unit": "HOUR"}, answer
assert post({**body, "hitsAddend": 1})[0] == 200
status, answer = post(body)
assert (status, answer["overallCode"]) == (429, "OVER_LIMIT"), answer
own = {"domain": "shop", "descriptors": [{"entries": [{"key": "own", "value": "http"}]}]}
while "quota" not in (status := post(own)[1]["statuses"][0]):
    assert time.monotonic() < end + 10, status
    time.sleep(0.1)
assert status["quota"]["requests"] >= 2 and status["quota"]["validUntil"].endswith("Z"), status
for wrong in (b"{", {"domain": "shop"}, {**body, "unknown": 1}):
    assert post(wrong)[0] in (400, 422), wrong


def get(path):
    with urllib.request.urlopen(f"http://{http}{path}") as response:
        return response.read().decode()


assert get("/healthcheck") == "OK"
metrics = get("/metrics")
for line in (
    'leaparray_envoy_request_errors_total{error="invalid"} 3',
    'leaparray_envoy_request_errors_total{error="unknown_domain"} 3',
    "leaparray_envoy_quota_refused_total 2",
):
    assert line in metrics, (line, metrics)
assert "<html" in get("/leaparray/").lower()

# A change of the file is in force, and a wrong file changes nothing.
file = pathlib.Path(config)
before = file.read_text()
file.write_text("domain: [\n")
time.sleep(3)
answer = should_rate_limit(request("shop", ("once", "e")))
assert answer.statuses[0].current_limit.requests_per_unit == 2
file.write_text(before.replace("requests_per_unit: 2", "requests_per_unit: 7"))
end = time.monotonic() + 10
while should_rate_limit(request("shop", ("once", "e"))).statuses[0].current_limit is not None:
    answer = should_rate_limit(request("shop", ("once", "e")))
    if answer.statuses[0].current_limit.requests_per_unit == 7:
        break
    assert time.monotonic() < end
    time.sleep(0.1)
metrics = get("/metrics")
assert 'leaparray_envoy_reloads_total{result="good"} 1' in metrics, metrics
assert 'leaparray_envoy_reloads_total{result="wrong"} 1' in metrics, metrics
