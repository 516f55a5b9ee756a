"""What the tests in Python share: how long they wait, and how what they start begins and ends."""

import re
import signal
import subprocess
import sys
import threading

# Longest wait for anything, in seconds. Every wait has this one limit: the machines of CI are slow, and no test says how
# fast they are.
PATIENCE = 90


def end_with_us():
    """Has SIGTERM end this program as an exception does, so that all that it started ends with it."""

    def leave(*_):
        # Once is enough: what is being cleaned up must not be left in the middle.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(143)

    signal.signal(signal.SIGTERM, leave)


def end(process):
    """Ends a program that was started here, and waits for its end."""
    process.terminate()
    try:
        process.wait(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def first_match(pattern, stream):
    """The first group of `pattern` in a line of a child's output; a thread reads on, so that the child never blocks."""
    found, lines, event = [], [], threading.Event()

    def read():
        for line in stream:
            if found:
                continue
            lines.append(line)
            if match := re.search(pattern, line):
                found.append(match.group(1))
                event.set()
        event.set()

    threading.Thread(target=read, daemon=True).start()
    event.wait(PATIENCE)
    if not found:
        raise RuntimeError(f"no {pattern!r} in what it said: {''.join(lines)}")
    return found[0]
