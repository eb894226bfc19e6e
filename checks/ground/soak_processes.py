"""The processes of a soak: the services, and the server of their limit and windows."""

import asyncio
import contextlib
import os
import pathlib
import re
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The requests of a second to each process, of each kind.
RATES = {"/fast": 15, "/slow": 10, "/failing": 10, "/orders": 100}
REFUSED = ("429", "503")


class TimeOfDay:
    """The time of day of a process, which libfaketime shifts. It leaves the monotonic clock alone,
    as a step of a machine's time does."""

    def __init__(self, library, file):
        # The dynamic linker goes on without a library that is not there.
        if library and not pathlib.Path(library).is_file():
            sys.exit(f"{library}: no such library")
        self.library, self.file = library, pathlib.Path(file)
        self.ahead = 0
        self.step(0)

    def step(self, seconds):
        self.ahead += seconds
        # A process must not read half of it.
        whole = self.file.with_suffix(".new")
        whole.write_text(f"{self.ahead:+}\n")
        whole.replace(self.file)

    def environment(self):
        if not self.library:
            return None
        return os.environ | {
            "LD_PRELOAD": self.library, "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }


class Life:
    """A service process from its start to its end, and what its clients saw."""

    def __init__(self, slot, number, redis, folder, clock):
        self.name = f"service-{slot}-{number}"
        target = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
        self.folder = folder
        self.process = subprocess.Popen(
            [f"{target}/debug/soak-service", self.name, f"redis://127.0.0.1:{redis.port}", folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clock.environment(),
        )
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])
        self.sent = {route: 0 for route in RATES}
        self.seen = {route: {} for route in RATES}
        self.left = {route: 0 for route in RATES}
        self.lost = 0
        # The requests of clients that have left, as far as the service has not seen them.
        self.unread = 0
        self.samples = []

    def sample(self):
        with contextlib.suppress(OSError):
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
            fields = dict(line.split(":", 1) for line in status)
            descriptors = len(os.listdir(f"/proc/{self.process.pid}/fd"))
            self.samples.append(
                (int(fields["VmRSS"].split()[0]), int(fields["Threads"]), descriptors)
            )

    async def totals(self):
        """The counts of the registry, by route; and the other lines."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        _, text = await ask(reader, writer, "/totals")
        writer.close()
        lines = text.decode().splitlines()
        counts = {}
        for line in (line for line in lines if line.startswith("/")):
            route, *pairs = line.split()
            counts[route] = {key: int(value) for key, value in (pair.split("=") for pair in pairs)}
        return counts, [line for line in lines if line.startswith("#")]

    def differences(self, counts):
        """Where the counts of the registry are not those of the clients, to the unit."""
        if self.lost:
            yield f"{self.name}: {self.lost} requests had no answer"
        for route, sent in self.sent.items():
            of = counts.get(route, dict.fromkeys(["success", "exception", "block", "cancelled"], 0))
            seen = self.seen[route]
            refused = sum(seen.get(status, 0) for status in REFUSED)
            unknown = {
                "success": of["success"] - seen.get("200", 0),
                "exception": of["exception"] - seen.get("500", 0),
                "block": of["block"] - refused,
                "cancelled": of["cancelled"],
            }
            ended = sum(unknown.values())
            self.unread += self.left[route] - ended
            # Also where clients have left: a request that was passed has one ending.
            endings = of["success"] + of["exception"] + of["cancelled"] + of.get("in_flight", 0)
            is_wrong = ended > self.left[route] or min(unknown.values()) < 0
            if is_wrong or of.get("in_flight") or endings != of.get("pass", 0):
                yield f"{self.name} {route}: sent {sent}, seen {seen}, left {self.left[route]}: {of}"

    def log_differences(self, counts):
        """Where the lines of the metric log do not add up to the counts of the registry."""
        lines = {}
        for path in pathlib.Path(self.folder).glob(f"{self.name}-metrics.log.*"):
            if path.suffix != ".idx":
                for line in path.read_text().splitlines():
                    _, _, name, passed, blocked, *_ = line.split("|")
                    old = lines.get(name, (0, 0))
                    lines[name] = (old[0] + int(passed), old[1] + int(blocked))
        for route, of in counts.items():
            found, held = lines.get(f"GET {route}", (0, 0)), (of["pass"], of["block"])
            if found != held:
                yield f"{self.name} {route}: the log has {found}, the registry {held}"


class Redis:
    """The server of the limit and of the windows."""

    def __init__(self, scratch, program, clock):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.scratch, self.program, self.clock = scratch, program, clock
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [self.program, "--port", str(self.port), "--save", "", "--dir", self.scratch],
            stdout=subprocess.DEVNULL, env=self.clock.environment(),
        )
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                if b"PONG" in self.command("PING"):
                    return
            time.sleep(0.05)
        sys.exit(f"{self.program} does not answer")

    def version(self):
        """The name and the version of the server, as it tells them."""
        output = subprocess.run([self.program, "--version"], capture_output=True, text=True).stdout
        name, version = re.match(r"(\w+) server v=(\S+)", output).groups()
        return f"{name} {version}"

    def step(self, seconds):
        """Steps its time of day. Yields a difference if the server does not see that."""
        before, begun = self.time(), time.monotonic()
        self.clock.step(seconds)
        seen = self.time() - before - (time.monotonic() - begun)
        if abs(seen - seconds) > 2:
            yield f"the server saw a step of {seen:.0f} s, not of {seconds} s"

    def time(self):
        """The seconds of the server's time of day."""
        return int(self.command("TIME").split(b"\r\n")[2])

    def command(self, *words):
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall((" ".join(words) + "\r\n").encode())
            return connection.recv(1 << 16)


async def ask(reader, writer, path):
    writer.write(f"GET {path} HTTP/1.1\r\nHost: soak\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = next(
        (int(line.split(":")[1]) for line in head.splitlines() if line.startswith("content-length")), 0
    )
    return head.split()[1], await reader.readexactly(length)
