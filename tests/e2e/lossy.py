# SPDX-License-Identifier: Apache-2.0
"""A network that does what networks do, between a client and a port: it loses answers, cuts them in
half, sends requests twice, stands still, and breaks.

    with Network(gateway.port) as network:
        network.plan("lose", "half")        # its next two connections; those after them pass
        ask(network.port, …)
"""
import asyncio
import contextlib
import socket
import struct
import threading

from serving import HOST

PIECE = 1 << 16
# What becomes of a connection. All but refuse bring the request to the other side.
MODES = ("pass",     # both ways
         "refuse",   # reset at once
         "lose",     # the answer is there, and the connection is reset instead
         "half",     # half of what comes first of the answer, then closed
         "swallow",  # nothing of the answer, and nothing is closed
         "twice")    # the request arrives twice; the client gets one answer


class Network:
    def __init__(self, to_port):
        self.to_port = to_port
        self.plans = []
        self.count = 0  # connections so far
        self.open = set()
        self.loop = asyncio.new_event_loop()
        self.listener = socket.create_server((HOST, 0), backlog=256)
        self.port = self.listener.getsockname()[1]

    def plan(self, *modes):
        assert set(modes) <= set(MODES)
        self.plans = list(modes)

    def cut(self):
        """Everything that is open, at once."""
        self.loop.call_soon_threadsafe(lambda: [reset(w) for w in list(self.open)])

    # ---- A connection ----

    async def forward(self, reader, *writers):
        """Until the end of it, which is passed on. One that breaks does not stop the others."""
        piece = b"first"
        while piece:
            try:
                piece = await reader.read(PIECE)
            except OSError:
                return
            for writer in writers:
                with contextlib.suppress(OSError):
                    if piece:
                        writer.write(piece)
                        await writer.drain()
                    else:
                        writer.write_eof()

    async def back(self, mode, reader, writer):
        if mode in ("lose", "half"):
            piece = await reader.read(PIECE)
            if mode == "half":
                writer.write(piece[:len(piece) // 2])
                await writer.drain()
                writer.close()
            else:
                reset(writer)
        elif mode == "swallow":
            while await reader.read(PIECE):
                pass
            await asyncio.Event().wait()
        else:
            await self.forward(reader, writer)

    async def serve(self, reader, writer):
        mode = self.plans.pop(0) if self.plans else "pass"
        self.count += 1
        self.open.add(writer)
        others = []
        with contextlib.suppress(OSError, asyncio.CancelledError):
            if mode != "refuse":
                others = [await asyncio.open_connection(HOST, self.to_port)
                          for _ in range(2 if mode == "twice" else 1)]
                self.open.update(w for _, w in others)
                there = asyncio.create_task(self.forward(reader, *(w for _, w in others)))
                back = asyncio.create_task(self.back(mode, others[0][0], writer))
                await asyncio.wait([there, back] if mode == "twice" else [back],
                                   return_when=asyncio.ALL_COMPLETED)
                there.cancel()
            else:
                reset(writer)
        for _, other in [(None, writer), *others]:
            self.open.discard(other)
            other.close()

    # ---- Life ----

    def run(self):
        asyncio.set_event_loop(self.loop)

        async def start():
            self.server = await asyncio.start_server(self.serve, sock=self.listener)

        self.loop.run_until_complete(start())
        self.loop.run_forever()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))

    def __enter__(self):
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.listener.close()


def reset(writer):
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                                   struct.pack("ii", 1, 0))
    writer.transport.abort()
