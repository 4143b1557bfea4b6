"""Processes that start side by side and do what counts one after the other. Standard library only.

Such a process prints the line READY once it has imported and loaded what it needs, waits for a line
on its standard input, does its work with the machine to itself, and prints one JSON document.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

READY = "ready"


def wait_for_turn():
    """In such a process. Ends it if whoever started it has gone."""
    print(READY, flush=True)
    if not sys.stdin.readline():
        sys.exit(1)


class Turn:
    """One process, seen from the one that started it. What goes wrong is {"failed": why}."""

    def __init__(self, command, environment, log):
        self.log = log
        self.answer = None
        with open(log, "wb") as errors:
            self.process = subprocess.Popen([str(word) for word in command], env=environment,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=errors, bufsize=0, start_new_session=True)

    def ready(self, seconds):
        """Waits until it is, or has answered without a turn."""
        if not select.select([self.process.stdout], [], [], max(0.0, seconds))[0]:
            self.stop(f"took over {seconds:.0f} s to start")
            return
        line = self.process.stdout.readline()
        if line.decode(errors="replace").strip() != READY:
            self.finish(line, None, seconds)

    def go(self, seconds):
        """Gives it its turn. Returns its answer."""
        if self.answer is None:
            self.finish(b"", b"go\n", seconds)
        return self.answer

    def finish(self, before, words, seconds):
        try:
            out, _ = self.process.communicate(words, timeout=max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self.stop(f"took over {seconds:.0f} s")
            return
        self.kill()
        try:
            self.answer = json.loads(before + out)
        except ValueError:
            lines = self.log.read_text(errors="replace").strip().splitlines() or [""]
            code = self.process.returncode
            self.answer = {"failed": f"exit code {code}: {lines[-1]}"[:200]}

    def stop(self, why):
        """Ends it unless it has answered; `why` is its answer then."""
        if self.answer is None:
            self.kill()
            self.process.communicate()
            self.answer = {"failed": why}

    def kill(self):
        """With all that it started: workers of torch's compiler outlive it, hold its pipes, and
        would compute beside the next."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def side_by_side(commands, seconds):
    """Runs triples of a command, its environment and the file of its log all at once, as many as
    there are cores. Returns for each what it printed as JSON, or {"failed": why}; none starts or
    goes on after `seconds`."""
    end = time.monotonic() + seconds
    started = []

    def one(triple):
        left = end - time.monotonic()
        if left <= 0:
            return {"failed": "no time was left"}
        turn = Turn(*triple)
        started.append(turn)
        turn.finish(b"", None, left)
        return turn.answer

    with ThreadPoolExecutor(max(1, min(len(commands), os.cpu_count() or 1))) as pool:
        try:
            return list(pool.map(one, commands))
        except BaseException:  # by Ctrl-C too
            end = 0
            for turn in started:
                turn.kill()
            raise
