"""One page a fit: what was asked, what was found and how good it is, in a single HTML file that needs no network."""

from ._page import Figure, Part, Report, Table, render, write_report

__all__ = ["Figure", "Part", "Report", "Table", "render", "write_report"]
