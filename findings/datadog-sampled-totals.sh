#!/usr/bin/env bash
# datadog: sampled at 10 %, a counter is 0 in most intervals, and ten times its value in the others
#
# Guess: a sample rate is the share of the calls that are sent. With `disable_aggregation=False`,
# the calls of an interval are added up before anything is sent, so the sum of each interval is
# right.
# Behaviour: all calls are added up, and the sample rate is then applied to the sum: it is sent with
# the probability 0.1, and the agent multiplies it by 10. The mean is right in the long run, and no
# interval is. Without aggregation, each interval is right up to the error of a sample, which is
# smaller the more requests there are.
# Version: datadog 0.56.0 (of PyPI).
# Here: no count is sampled: each request is counted once, in the bucket of its time.
. "$(dirname "$0")/lib.sh"

python_packages datadog==0.56.0

program() { python_program <<'END'; }
import random
import socket
from datadog.dogstatsd.base import DogStatsd

agent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
agent.bind(("127.0.0.1", 0))
agent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_000_000)
agent.setblocking(False)

def counted():
    """The sum of what the agent has received, each value divided by its sample rate."""
    total = 0
    while True:
        try:
            lines = agent.recv(65_536).decode().split()
        except BlockingIOError:
            return round(total)
        for line in lines:
            value, _type, *rest = line.split(":", 1)[1].split("|")
            rates = [float(it[1:]) for it in rest if it.startswith("@")]
            total += float(value) / (rates[0] if rates else 1)

for disable_aggregation in (True, False):
    random.seed(1)
    client = DogStatsd(
        host="127.0.0.1", port=agent.getsockname()[1], disable_telemetry=True,
        disable_aggregation=disable_aggregation, flush_interval=3_600,
    )
    counts = []
    for _interval in range(20):
        for _request in range(1_000):
            client.increment("requests", sample_rate=0.1)
        if not disable_aggregation:
            client.flush_aggregated_metrics()
        client.flush()
        counts.append(counted())
    print("one by one:" if disable_aggregation else "aggregated:", *counts)
END

expect program <<'END'
one by one: 950 1050 1090 1060 960 900 1120 960 1070 1250 970 830 1130 980 1060 1000 1180 1010 940 910
aggregated: 0 0 0 0 0 0 0 0 10000 10000 0 0 0 10000 0 0 0 0 0 10000
END
