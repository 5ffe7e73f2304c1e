"""Ranks without the two seconds that `import torch` takes: forked from a process that has imported it already.

    warm.py serve SOCKET                imports torch, then runs what clients ask for, each in a child of its own
    warm.py SOCKET PROGRAM [ARGUMENT…]  as a rank: environment and output of the child are its own, and so is the exit code

The child runs the program in the place of this file's own end, so that Python ends as it does behind any program: an exception that nobody catches is
printed, and what is registered for the end of the program is called.
"""

import array
import gc
import json
import os
import socket
import sys


def receive(connection):
    """What the client asks for, and its descriptors by their numbers."""
    head, ancillary, _, _ = connection.recvmsg(16, socket.CMSG_SPACE(64 * 4))
    received = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            received.frombytes(data)
    size = int(head)
    text = b""
    while len(text) < size:
        text += connection.recv(size - len(text))
    said = json.loads(text)
    return said, dict(zip(said["descriptors"], received))


def ask(path, arguments):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    numbers = [1, 2]
    if "UNISONO_LAUNCHER_FD" in os.environ:
        numbers.append(int(os.environ["UNISONO_LAUNCHER_FD"]))
    text = json.dumps({"environment": dict(os.environ), "descriptors": numbers, "arguments": arguments}).encode()
    connection.sendmsg([b"%016d" % len(text)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", numbers))])
    connection.sendall(text)
    code = connection.recv(16)
    os._exit(int(code) if code else 70)


def take_place(said, descriptors):
    """This process becomes the rank."""
    high = {number: os.dup2(fd, 200 + i) for i, (number, fd) in enumerate(descriptors.items())}
    for fd in descriptors.values():
        os.close(fd)
    for number, fd in high.items():
        os.dup2(fd, number, inheritable=number < 3)
        os.close(fd)
    os.environ.clear()
    os.environ.update(said["environment"])
    sys.argv[:] = said["arguments"]


def wait_for_a_job(path):
    """Returns in a child that is to run the program; never in the server itself."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(64)
    print("ready", flush=True)
    while True:
        connection, _ = listening.accept()
        if os.fork():
            connection.close()
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                pass
            continue
        listening.close()
        said, descriptors = receive(connection)
        child = os.fork()
        if child == 0:
            connection.close()
            take_place(said, descriptors)
            return
        for fd in descriptors.values():
            os.close(fd)
        os.close(1)
        os.close(2)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(str(code if code >= 0 else 128 - code).encode())
        os._exit(0)


if sys.argv[1] != "serve":
    ask(sys.argv[1], sys.argv[2:])
import torch  # noqa: E402
import torch.distributed  # noqa: E402, F401

import unisono.torch  # noqa: E402
from unisono.torch import _extension  # noqa: E402

_extension.load()

torch.set_num_threads(1)
gc.freeze()  # what is here is not looked through at each child's end
wait_for_a_job(sys.argv[2])
exec(compile(open(sys.argv[0]).read(), sys.argv[0], "exec"))
