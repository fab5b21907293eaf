"""What the build makes and how it is made hold no doctests."""

collect_ignore_glob = ["conf.py", "links.py", "_build", "gallery", "generated", "images/*.py"]
