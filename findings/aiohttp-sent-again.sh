#!/usr/bin/env bash
# aiohttp: a DELETE that the server has read, and answered by closing, is sent a second time
#
# Guess: a client that has no retry policy sends a request once. If the connection ends without a
# response, the caller gets an error.
# Behaviour: GET, PUT and DELETE are sent again on a new connection, although the server had read
# the first one to its end. Only the second failure is reported. A POST is sent once.
# Version: aiohttp 3.14.5 (of PyPI).
# Here: a handler that panics ends its connection, and such a client makes it panic twice: two
# exceptions for one call, as a circuit breaker counts them.
. "$(dirname "$0")/lib.sh"

python_packages aiohttp==3.14.5

program() { python_program <<'END'; }
import asyncio
import aiohttp

async def main():
    received = []

    async def serve(reader, writer):
        """Reads one request, and closes the connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        received.append(head.split(" ")[0])
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    for method in ("GET", "PUT", "DELETE", "POST"):
        received.clear()
        async with aiohttp.ClientSession() as session:
            try:
                await session.request(method, url)
            except aiohttp.ClientError as error:
                print(f"{method}: received {len(received)} times, {type(error).__name__}")

asyncio.run(main())
END

expect program <<'END'
GET: received 2 times, ServerDisconnectedError
PUT: received 2 times, ServerDisconnectedError
DELETE: received 2 times, ServerDisconnectedError
POST: received 1 times, ServerDisconnectedError
END
