#!/usr/bin/env bash
# httpx: over HTTP/2, the server is not told that a client has given a request up
#
# Guess: after a time-out, or at the end of a `with client.stream(...)` whose body was not read, the
# stream is reset, as over HTTP/1.1 the connection is closed. So the server can drop the request.
# Behaviour: over HTTP/2, the server hears nothing. After the time-out, the client opens another
# connection and leaves the first one open; a stream whose body it does not want stays open beside
# the next request. Both end when the client is closed.
# Version: httpx 0.28.1, httpcore 1.0.9, h2 4.4.1 (of PyPI).
# Here: such a request is in flight, and holds its permit, until the service ends it. A service
# bounds the time of its own work (docs/COMPATIBILITY.md).
. "$(dirname "$0")/lib.sh"

python_packages httpx==0.28.1 httpcore==1.0.9 h2==4.4.1

program() { python_program <<'END'; }
import itertools, queue, socket, threading, time
import h2.config, h2.connection, h2.events, httpx

def serve_http2(connection, number, seen):
    state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    state.initiate_connection()
    connection.sendall(state.data_to_send())
    while data := connection.recv(65536):
        for event in state.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                path = dict(event.headers)[b":path"]
                seen.put((number, path.decode()))
                if path == b"/stream":
                    state.send_headers(event.stream_id, [(":status", "200")])
                    state.send_data(event.stream_id, b"first\n")
                elif path == b"/done":
                    state.send_headers(event.stream_id, [(":status", "204")], end_stream=True)
            elif isinstance(event, h2.events.StreamReset):
                seen.put((number, "reset"))
        connection.sendall(state.data_to_send())
    seen.put((number, "closed"))

def serve_http1(connection, number, seen):
    while data := connection.recv(65536):
        path = data.split()[1]
        seen.put((number, path.decode()))
        if path == b"/stream":
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst\n\r\n")
        elif path == b"/done":
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
    seen.put((number, "closed"))

def accept(listener, serve, seen):
    for number in itertools.count(1):
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, number, seen), daemon=True).start()

for version, serve, options in [
    ("HTTP/1.1", serve_http1, {}),
    ("HTTP/2", serve_http2, {"http1": False, "http2": True}),
]:
    seen = queue.Queue()
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=accept, args=(listener, serve, seen), daemon=True).start()
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    client = httpx.Client(**options)
    try:
        client.get(origin + "/waits", timeout=1)
    except httpx.ReadTimeout:
        pass
    with client.stream("GET", origin + "/stream") as response:
        next(response.iter_raw())
    client.get(origin + "/done")
    # A second, in which what the client has sent about the first two arrives.
    time.sleep(1)
    events = list(seen.queue)
    for connection in sorted({number for number, _ in events}):
        print(f"{version}, {connection}:", *(what for number, what in events if number == connection))
END

expect program <<'END'
HTTP/1.1, 1: /waits closed
HTTP/1.1, 2: /stream closed
HTTP/1.1, 3: /done
HTTP/2, 1: /waits
HTTP/2, 2: /stream /done
END
