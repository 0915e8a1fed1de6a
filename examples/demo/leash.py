# SPDX-License-Identifier: Apache-2.0
"""leash.py PARENT COMMAND…: becomes COMMAND, and the kernel kills it when PARENT dies.

So the demo leaves no process behind, even when it is itself killed. The kernel watches the thread
that started this one: processes are started from the demo's main thread only.
"""
import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main():
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        sys.exit(f"leash: prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # it died before we asked
        sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
