#!/usr/bin/env bash
# grpcio: a pushback beyond the deadline makes DEADLINE_EXCEEDED of a refusal, after the deadline
#
# Guess: a call with a deadline of 1 s that is refused at once, with `grpc-retry-pushback-ms` of one
# minute, ends at once: no retry can be sent before the deadline.
# Behaviour: if the client's retry policy names the status, the client waits for the retry until the
# deadline. It then reports DEADLINE_EXCEEDED, and the status and the message of the refusal are
# lost. Without the pushback, or with a negative one, the refusal is reported at once.
# Version: grpcio 1.85.3 (of PyPI), as a server and as a client.
# Here: the refusals of leaparray-tower have a pushback. If the next attempt would come after the
# deadline of the call, it is -1, since the client would otherwise see its deadline expire at a
# server that is only busy, and its circuit breaker would count an exception.
. "$(dirname "$0")/lib.sh"

python_packages grpcio==1.85.3

program() { python_program <<'END'; }
import json, time
from concurrent.futures import ThreadPoolExecutor
import grpc

PUSHBACK = "grpc-retry-pushback-ms"

class Refusing(grpc.GenericRpcHandler):
    """Refuses each call at once, and sends the pushback that the client has asked for."""

    def service(self, details):
        metadata = tuple(it for it in details.invocation_metadata if it.key == PUSHBACK)

        def refuse(_request, context):
            context.set_trailing_metadata(metadata)
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "over the limit")

        return grpc.unary_unary_rpc_method_handler(refuse)

server = grpc.server(ThreadPoolExecutor(1), handlers=[Refusing()])
address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
server.start()

POLICY = {"maxAttempts": 2, "initialBackoff": "0.01s", "maxBackoff": "0.01s", "backoffMultiplier": 1}
CODES = {"retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}

def call(retries, pushback):
    config = {"methodConfig": [{"name": [{}], "retryPolicy": POLICY | CODES}]} if retries else {}
    options = [("grpc.service_config", json.dumps(config))]
    metadata = [(PUSHBACK, pushback)] if pushback else []
    with grpc.insecure_channel(address, options) as channel:
        grpc.channel_ready_future(channel).result(30)
        start = time.monotonic()
        try:
            channel.unary_unary("/finding/call")(b"", timeout=5, metadata=metadata)
        except grpc.RpcError as error:
            waited = "after the deadline" if time.monotonic() - start > 4.9 else "at once"
            policy = "with a retry policy" if retries else "without one"
            print(f"{policy}, pushback {pushback}: {error.code().name} {waited}: {error.details()}")

call(False, "60000")
call(True, None)
call(True, "-1")
call(True, "60000")
END

expect program <<'END'
without one, pushback 60000: RESOURCE_EXHAUSTED at once: over the limit
with a retry policy, pushback None: RESOURCE_EXHAUSTED at once: over the limit
with a retry policy, pushback -1: RESOURCE_EXHAUSTED at once: over the limit
with a retry policy, pushback 60000: DEADLINE_EXCEEDED after the deadline: Deadline Exceeded
END
