import signal
from contextlib import suppress

import matplotlib as mpl

mpl.use("Agg")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background: tests of Ctrl-C need the signal
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.default_int_handler)
