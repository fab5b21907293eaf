"""Work of the fuzz whose second input has no end; in a file of its own, so that its process imports nothing."""

import time


def work(pipe, seed, numbers, only):
    for number in numbers:
        if number == 1:
            time.sleep(60)
        pipe.send((number, "SlicedInverse", "planted", "fitted", ""))
    pipe.send(None)
