"""Worker processes of this machine: started anew, asked and answered in pickles, ended with whoever started them.

    process = WorkerProcess("package.module:serve", *arguments)    serve(channel, *arguments) runs in the process
    process.send(request)                                          channel.receive()
    process.receive()                                              channel.send(answer)

The parent and the process are connected by pipes that nobody else can open. What a process prints goes to stderr,
Ctrl-C is for the parent to answer, and a process ends when its parent does, whatever it is at and whatever ended the
parent. Where work is a plain function of its argument, `concurrent.futures` does; its processes call
`end_with_parent`.
"""

from __future__ import annotations

import contextlib
import os
import pickle  # what passes through these pipes is only ever from the process at their other end, which is ours
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import IO, Any

_BOOT = (
    "import pickle, sys; size = int(sys.stdin.buffer.readline()); "
    "sys.path[:] = dict.fromkeys([*pickle.loads(sys.stdin.buffer.read(size)), *sys.path]); "
    "from blamespan.worker_processes import _main; _main()"
)
_LENGTH = struct.Struct("<Q")
_NOTE = 1 << 63
"""Set in the length of a note."""
_END_S = 5.0
"""How long a process may take to end once its pipe is closed."""
_WATCH_S = 1.0
"""How often a process looks whether its parent is there: another process may hold the parent's end of the pipe."""


class WorkerProcess:
    """One process, and the parent's end of its pipes.

    Args:
        target: What runs in it, as `module:function`; it is given a `Channel` and *arguments*.
        arguments: Small ones: they must fit into a pipe.
        environment: Of the process; this one's by default.
        niceness: How far it yields to others, as `nice` counts it.
        on_note: Called with each note of the process, by whoever reads the answer after it.
    """

    def __init__(
        self,
        target: str,
        *arguments: object,
        environment: Mapping[str, str] | None = None,
        niceness: int = 0,
        on_note: Callable[[Any], None] | None = None,
    ) -> None:
        self._on_note = on_note
        self._process = subprocess.Popen(  # noqa: S603  # our own interpreter and code
            # -P: a module in the folder we are in must not stand for another; the target is there for `ps`
            [sys.executable, "-P", "-c", _BOOT, target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            process_group=0,  # Ctrl-C is for us; we end our workers
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        paths = pickle.dumps([os.path.abspath(path) for path in sys.path])  # noqa: PTH100  # "" is the folder we are in
        with contextlib.suppress(OSError):  # it has ended: whoever asks it will hear so
            self._requests.write(b"%d\n" % len(paths))
            self._requests.write(paths)
            self.send((target, arguments, niceness))

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """How it ended, as `subprocess.Popen.returncode`; None while it runs, or before `end` or `close`."""
        return self._process.returncode

    def send(self, request: object) -> None:
        """Send a request.

        Raises:
            OSError: if the process has ended.
        """
        if self._requests.closed:
            raise BrokenPipeError("the process has ended")
        _write_frame(self._requests, pickle.dumps(request, pickle.HIGHEST_PROTOCOL))
        self._requests.flush()

    def receive(self, *, timeout_s: float | None = None) -> Any:
        """Wait for the next answer.

        Raises:
            EOFError: if the process ends before.
            TimeoutError: if it does not come within *timeout_s*; the process was killed then.
        """
        if timeout_s is None:
            return pickle.loads(self.receive_bytes())  # noqa: S301
        is_late = threading.Event()

        def kill() -> None:
            is_late.set()
            self.kill()

        limit = threading.Timer(timeout_s, kill)
        limit.daemon = True
        limit.start()
        try:
            return pickle.loads(self.receive_bytes())  # noqa: S301
        except EOFError as error:
            if is_late.is_set():
                raise TimeoutError(f"no answer within {timeout_s:g} s") from error
            raise
        finally:
            limit.cancel()

    def receive_bytes(self) -> bytes:
        """Wait for the pickle of the next answer; empty where the process said that no more come.

        Raises:
            EOFError: if the process ends before.
        """
        while True:
            is_note, data = _read_frame(self._answers)
            if not is_note:
                return data
            if self._on_note is not None:
                self._on_note(pickle.loads(data))  # noqa: S301

    def kill(self) -> None:
        """End it at once, from any thread: whoever waits for its answer gets an EOFError."""
        with contextlib.suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """End it as soon as it notices that nobody asks any more, whatever it is at."""
        with contextlib.suppress(OSError):  # what it was never given
            self._requests.close()
        self.wait_for_end()

    def wait_for_end(self) -> str:
        """Wait until it has ended, kill it if that takes long, and return how it ended: `killed by signal 9`."""
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:  # its pipe is closed, and it goes on
            self.kill()
            code = self._process.wait()
        for pipe in (self._requests, self._answers):
            with contextlib.suppress(OSError):
                pipe.close()
        return f"killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


class Channel:
    """The process's end of its pipes, for one thread at a time."""

    def __init__(self, requests: IO[bytes], answers: IO[bytes]) -> None:
        self._answers = answers
        self._requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._listen, args=(requests,), daemon=True).start()

    def receive(self) -> Any:
        """Wait for the next request."""
        return pickle.loads(self._requests.get())  # noqa: S301

    def send(self, answer: object) -> None:
        """Send an answer."""
        self._write(pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))

    def send_end(self) -> None:
        """Send that no more answers to a request come, for parents that read several with `receive_bytes`."""
        self._write(b"")

    def send_note(self, note: object) -> None:
        """Send something between the answers, which the parent may do without."""
        self._write(pickle.dumps(note, pickle.HIGHEST_PROTOCOL), _NOTE)

    def _write(self, data: bytes, mark: int = 0) -> None:
        try:
            _write_frame(self._answers, data, mark)
            self._answers.flush()
        except BrokenPipeError:
            os._exit(0)  # nobody waits for an answer

    def _listen(self, requests: IO[bytes]) -> None:
        """Pass on the requests; end the process with its pipe, whatever it is at: nobody waits for an answer."""
        while True:
            try:
                self._requests.put(_read_frame(requests)[1])
            except EOFError:
                os._exit(0)


def end_with_parent() -> None:
    """Have this process end soon after the one that started it, in whatever it is then."""
    threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH_S)
    os._exit(1)


def _main() -> None:
    """Run what the parent asks for: the whole life of a worker process."""
    answers = os.fdopen(os.dup(1), "wb", buffering=1 << 16)
    os.dup2(2, 1)  # what is printed must not stand among the answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    code = 1
    try:
        target, arguments, niceness = pickle.loads(_read_frame(sys.stdin.buffer)[1])  # noqa: S301
        if niceness:
            os.nice(niceness)
        module, _, name = target.partition(":")
        serve = getattr(import_module(module), name)
        serve(Channel(sys.stdin.buffer, answers), *arguments)
        code = 0
    except EOFError:
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)  # not `return`: a thread is reading standard input


def _write_frame(file: IO[bytes], data: bytes, mark: int = 0) -> None:
    file.write(_LENGTH.pack(mark | len(data)))
    file.write(data)


def _read_frame(file: IO[bytes]) -> tuple[bool, bytes]:
    """Read the next frame and whether it is a note.

    Raises:
        EOFError: if the other end has gone.
    """
    (size,) = _LENGTH.unpack(_read_exactly(file, _LENGTH.size))
    return bool(size & _NOTE), _read_exactly(file, size & ~_NOTE)


def _read_exactly(file: IO[bytes], size: int) -> bytes:
    try:
        data = file.read(size)
    except ValueError as error:  # closed by another thread of ours
        raise EOFError("the pipe is closed") from error
    if len(data) < size:
        raise EOFError("the other end has gone")
    return data
