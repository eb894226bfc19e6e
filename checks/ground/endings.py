"""How requests of other projects' clients end, as a service with leaparray-tower counts them:
directly, and behind proxies. Prints the rows of two tables of docs/COMPATIBILITY.md.

    endings.py SERVICE clients     python3, node and curl, with the packages that `clients` installs
    endings.py SERVICE proxies NAME=PROGRAM...
"""

import contextlib
import importlib.metadata
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.request

# An ending later than that is none.
PATIENCE = 5.0


class Service:
    """The program of this folder, and the counts that it tells."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()

    def endings(self, path):
        with urllib.request.urlopen(f"http://{self.address}/endings", timeout=20) as response:
            for line in response.read().decode().splitlines():
                _, at, *counts = line.split()
                if at == path:
                    return [int(count) for count in counts]
        raise ValueError(path)

    def wait(self, path, condition, seconds):
        """The first counts that meet the condition, or None, and the seconds until then."""
        start = time.monotonic()
        while True:
            counts = self.endings(path)
            if condition(counts):
                return counts, time.monotonic() - start
            if time.monotonic() - start > seconds:
                return None, seconds
            time.sleep(0.02)

    def ending(self, path, before):
        """How the only request since `before` has ended."""
        counts, seconds = self.wait(path, lambda now: sum(now[:3]) > sum(before[:3]), PATIENCE)
        if counts is None:
            return "still in flight" if self.endings(path)[3] else "never came"
        kinds = ["success", "exception", "cancelled"]
        kind = next(kind for kind, now, then in zip(kinds, counts, before) if now > then)
        return kind if seconds < 1 else f"{kind} after {seconds:.0f} s"


def python(code):
    return lambda url: [sys.executable, "-c", textwrap.dedent(code).replace("URL", repr(url))]


def node(code):
    return lambda url: ["node", "--input-type=module", "-e", textwrap.dedent(code).replace("URL", repr(url))]


def curl(*args):
    return lambda url: ["curl", "--silent", "--output", "/dev/null", *args, url]


STAY = "import time; time.sleep(60)"

# For each client: a request without an answer, a time-out of half a second, the first bytes of an
# endless body, and a head whose body is forgotten. The process then stays.
CLIENTS = {
    "curl": {
        "waits": curl(),
        "time-out": curl("--max-time", "0.5"),
        "leaves": lambda url: ["sh", "-c", f"curl --silent --no-buffer {url} | head -n 1; sleep 60"],
    },
    "curl, HTTP/2": {
        "waits": curl("--http2-prior-knowledge"),
        "time-out": curl("--http2-prior-knowledge", "--max-time", "0.5"),
        "leaves": lambda url: [
            "sh", "-c", f"curl --silent --http2-prior-knowledge --no-buffer {url} | head -n 1; sleep 60"
        ],
    },
    "requests": {
        "waits": python("import requests; requests.get(URL)"),
        "time-out": python(f"""
            import requests
            session = requests.Session()
            try: session.get(URL, timeout=0.5)
            except requests.Timeout: pass
            {STAY}
            """),
        "leaves": python(f"""
            import requests
            session = requests.Session()
            with session.get(URL, stream=True) as response: next(response.iter_lines())
            {STAY}
            """),
        "forgets": python(f"""
            import gc, requests
            session = requests.Session()
            session.get(URL, stream=True)
            gc.collect()
            {STAY}
            """),
    },
}

for version, options in [("", ""), (", HTTP/2", "http1=False, http2=True")]:
    CLIENTS["httpx" + version] = {
        "waits": python(f"import httpx; httpx.Client({options}).get(URL, timeout=None)"),
        "time-out": python(f"""
            import httpx
            client = httpx.Client({options})
            try: client.get(URL, timeout=0.5)
            except httpx.TimeoutException: pass
            {STAY}
            """),
        "leaves": python(f"""
            import httpx
            client = httpx.Client({options})
            with client.stream("GET", URL) as response: next(response.iter_lines())
            {STAY}
            """),
        "forgets": python(f"""
            import gc, httpx
            client = httpx.Client({options})
            client.send(client.build_request("GET", URL), stream=True)
            gc.collect()
            {STAY}
            """),
    }

AIOHTTP = """
    import aiohttp, asyncio, gc
    async def main():
        async with aiohttp.ClientSession() as session:
            {action}
            await asyncio.sleep(60)
    asyncio.run(main())
    """
CLIENTS["aiohttp"] = {
    "waits": python(AIOHTTP.format(action="await session.get(URL)")),
    "time-out": python(AIOHTTP.format(action="""
            try: await session.get(URL, timeout=aiohttp.ClientTimeout(total=0.5))
            except asyncio.TimeoutError: pass""")),
    "leaves": python(AIOHTTP.format(action="""
            async with session.get(URL) as response: await response.content.readline()""")),
    "forgets": python(AIOHTTP.format(action="""
            await session.get(URL)
            gc.collect()""")),
}

CLIENTS["fetch of Node.js"] = {
    "waits": node("await fetch(URL)"),
    "time-out": node("""
        await fetch(URL, { signal: AbortSignal.timeout(500) }).catch(() => {})
        setTimeout(() => {}, 60000)
        """),
    "leaves": node("""
        const reader = (await fetch(URL)).body.getReader()
        await reader.read()
        await reader.cancel()
        setTimeout(() => {}, 60000)
        """),
    "forgets": node("""
        await fetch(URL)
        setInterval(() => globalThis.gc?.(), 100)
        setTimeout(() => process.exit(), 60000)
        """),
}

CLIENTS["undici"] = {
    "waits": node("import { request } from 'undici'; await request(URL)"),
    "time-out": node("""
        import { request } from 'undici'
        await request(URL, { signal: AbortSignal.timeout(500) }).catch(() => {})
        setTimeout(() => {}, 60000)
        """),
    "leaves": node("""
        import { request } from 'undici'
        const { body } = await request(URL)
        for await (const chunk of body) break
        setTimeout(() => {}, 60000)
        """),
    "forgets": node("""
        import { request } from 'undici'
        await request(URL)
        setTimeout(() => {}, 60000)
        """),
}

for version, name in [("1", "Go 1.27.3"), ("2", "Go 1.27.3, HTTP/2")]:
    # Built by `clients`, in its folder.
    go = lambda action, version=version: lambda url: ["./go-client", version, action, url]
    CLIENTS[name] = {action: go(action) for action in ["waits", "time-out", "leaves", "forgets"]}


def version_of(client):
    """The release of a client, as it tells; the name of another one has it."""
    if client == "curl":
        return subprocess.check_output(["curl", "--version"], text=True).split()[1]
    if client == "fetch of Node.js":
        return subprocess.check_output(["node", "--version"], text=True).strip().lstrip("v")
    if client == "undici":
        return json.loads(pathlib.Path("node_modules/undici/package.json").read_text())["version"]
    if client in ("requests", "httpx", "aiohttp"):
        return importlib.metadata.version(client)
    return ""


def with_version(name):
    """`curl, HTTP/2` as `curl 8.14.1, HTTP/2`."""
    client, *more = name.split(", ")
    return ", ".join([f"{client} {version_of(client)}".strip(), *more])


@contextlib.contextmanager
def running(command, folder=None):
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def ending_of(service, address, path, command, kill):
    before = service.endings(path)
    with running(command(f"http://{address}{path}")) as process:
        entered, _ = service.wait(path, lambda now: now != before, 20)
        if entered is None:
            return "never came"
        if kill:
            # Long enough for the client to be in the middle of it, and for a proxy that reads ahead.
            service.wait(path, lambda now: sum(now[:3]) > sum(before[:3]), 2)
            os.killpg(process.pid, signal.SIGKILL)
        return service.ending(path, before)


def clients(service):
    print("| client | killed while it waits | its own time-out | leaves after the first line | forgets the body |")
    print("|---|---|---|---|---|")
    for name, actions in CLIENTS.items():
        cells = []
        for action, path in [("waits", "/waits"), ("time-out", "/waits"), ("leaves", "/stream"), ("forgets", "/stream")]:
            if action in actions:
                cells.append(ending_of(service, service.address, path, actions[action], action == "waits"))
            else:
                cells.append("")
        print("|", " | ".join([with_version(name), *cells]), "|", flush=True)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def nginx(program, folder, port, backend, more=""):
    config = f"""
        daemon off; master_process off; pid {folder}/pid; error_log stderr; events {{}}
        http {{
          access_log off;
          client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
          fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
          server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://{backend}; {more} }} }}
        }}"""
    return config, [program, "-p", folder, "-e", "stderr", "-c", f"{folder}/config"]


def nginx_unbuffered(*args):
    return nginx(*args, more="proxy_buffering off; proxy_request_buffering off;")


def haproxy(program, folder, port, backend, more=""):
    config = f"""
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
    {more}
listen service
    bind 127.0.0.1:{port}
    server service {backend}
"""
    return config, [program, "-db", "-f", f"{folder}/config"]


def haproxy_abortonclose(*args):
    return haproxy(*args, more="option abortonclose")


def caddy(program, folder, port, backend):
    config = f"""{{
    admin off
    auto_https off
}}
http://127.0.0.1:{port} {{
    bind 127.0.0.1
    reverse_proxy {backend}
}}
"""
    return config, [program, "run", "--adapter", "caddyfile", "--config", f"{folder}/config"]


def apache(program, folder, port, backend):
    modules = pathlib.Path(program).parent.parent / "usr/lib/apache2/modules"
    loads = "\n".join(
        f"LoadModule {name}_module {modules}/mod_{name}.so"
        for name in ["mpm_event", "authz_core", "proxy", "proxy_http"]
    )
    config = f"""
ServerRoot {folder}
ServerName localhost
PidFile {folder}/pid
ErrorLog {folder}/error
Listen 127.0.0.1:{port}
{loads}
ProxyPass / http://{backend}/
"""
    return config, [program, "-X", "-f", f"{folder}/config"]


def envoy(program, folder, port, backend):
    host, backend_port = backend.split(":")
    address = lambda host, port: f"{{socket_address: {{address: {host}, port_value: {port}}}}}"
    http = "type.googleapis.com/envoy.extensions.filters"
    config = f"""
static_resources:
  listeners:
  - address: {address("127.0.0.1", port)}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          "@type": {http}.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: http
          route_config:
            virtual_hosts:
            - {{name: all, domains: ["*"], routes: [{{match: {{prefix: /}}, route: {{cluster: service, timeout: 0s}}}}]}}
          http_filters:
          - {{name: router, typed_config: {{"@type": {http}.http.router.v3.Router}}}}
  clusters:
  - name: service
    load_assignment:
      cluster_name: service
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {address(host, backend_port)}}}}}]}}]
"""
    return config, [program, "--config-path", f"{folder}/config.yaml", "--concurrency", "1", "--disable-hot-restart"]


def traefik(program, folder, port, backend):
    config = f"""
http:
  routers: {{all: {{rule: "PathPrefix(`/`)", service: service}}}}
  services: {{service: {{loadBalancer: {{servers: [{{url: "http://{backend}"}}]}}}}}}
"""
    return config, [
        program, f"--entrypoints.web.address=127.0.0.1:{port}", f"--providers.file.filename={folder}/config.yaml",
    ]


def upload(url):
    return ["sh", "-c", f"head -c 900000 /dev/zero | curl --silent --limit-rate 20k --data-binary @- {url}"]


NAMES = {
    "nginx": "nginx", "haproxy": "HAProxy", "apache": "Apache", "caddy": "Caddy", "envoy": "Envoy", "traefik": "Traefik",
}
SETTINGS = {
    "nginx": {"": nginx, ", `proxy_buffering off`": nginx_unbuffered},
    "haproxy": {"": haproxy, ", `option abortonclose`": haproxy_abortonclose},
    "apache": {"": apache},
    "caddy": {"": caddy},
    "envoy": {"": envoy},
    "traefik": {"": traefik},
}


def cells_of(service, address, cases):
    return [*(ending_of(service, address, path, command, True) for path, command in cases), page(address)]


def behind(service, program, configure, cases):
    """The endings of the cases behind a proxy."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        config, command = configure(program, folder, port, service.address)
        for file in ["config", "config.yaml"]:
            pathlib.Path(folder, file).write_text(config)
        with running(command, folder):
            until = time.monotonic() + 20
            while time.monotonic() < until:
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/done", timeout=20).read()
                    return cells_of(service, f"127.0.0.1:{port}", cases)
                time.sleep(0.05)
    return ["does not start"]


def page(address):
    """Whether the live page's seconds arrive one by one."""
    opened, times = time.time(), []
    with contextlib.suppress(OSError), urllib.request.urlopen(
        f"http://{address}/leaparray/stream", timeout=PATIENCE
    ) as response:
        while len(times) < 4:
            message = json.loads(response.readline())
            # The page begins with the seconds that have passed.
            if message["type"] == "second" and message["t"] > opened:
                times.append(time.monotonic())
    gaps = [after - before for before, after in zip(times, times[1:])]
    return "each second" if len(gaps) == 3 and all(0.5 < gap < 1.5 for gap in gaps) else "late"


def proxies(service, programs):
    print("| proxy | version | client leaves while it waits | in the middle of a stream | in the middle of a large body | in its upload | live page |")
    print("|---|---|---|---|---|---|---|")
    cases = [
        ("/waits", curl()),
        ("/stream", curl("--no-buffer")),
        ("/large", curl("--limit-rate", "100k")),
        ("/upload", upload),
    ]
    cells = cells_of(service, service.address, cases)
    print("|", " | ".join(["none", "", *cells]), "|", flush=True)
    for name, version, program in (it.split("=", 2) for it in programs):
        for setting, configure in SETTINGS[name].items():
            cells = behind(service, program, configure, cases)
            print("|", " | ".join([f"{NAMES[name]}{setting}", version, *cells]), "|", flush=True)


def main():
    program, what, *rest = sys.argv[1:]
    service = Service(program)
    try:
        clients(service) if what == "clients" else proxies(service, rest)
    finally:
        service.process.kill()


main()
