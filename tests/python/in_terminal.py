"""Runs a command in a terminal of its own and prints what it wrote there.

    python in_terminal.py DIRECTORY COLUMNS COMMAND...

Ends with the command's exit code.
"""

import fcntl
import os
import pty
import struct
import sys
import termios

ROWS = 24


def main():
    directory, columns, *command = sys.argv[1:]
    pid, terminal = pty.fork()
    if pid == 0:
        size = struct.pack("HHHH", ROWS, int(columns), 0, 0)
        fcntl.ioctl(sys.stderr.fileno(), termios.TIOCSWINSZ, size)
        os.chdir(directory)
        os.environ["TERM"] = "xterm"
        os.execvp(command[0], command)
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # Linux: no process has the terminal open any more.
            break
        if not chunk:
            break
        sys.stdout.buffer.write(chunk)
    _, status = os.waitpid(pid, 0)
    sys.stdout.flush()
    sys.exit(os.waitstatus_to_exitcode(status))


main()
