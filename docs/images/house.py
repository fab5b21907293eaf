"""Draw the rooms of the house and which may import which: `python docs/images/house.py`.

Floors are those that tests/contract/test_architecture.py holds; a room imports from its own floor and from those below.
"""

from __future__ import annotations

import runpy
from pathlib import Path

HERE = Path(__file__).parent
TEST = HERE.parents[1] / "tests" / "contract" / "test_architecture.py"

WHAT = [
    "the ground: rows in chunks, blocks of columns, containers",
    "sums over rows, small matrices",
    "laws of x",
    "estimators",
    "quality on what was left out",
    "files, pictures, experiments",
    "pages",
    "commands",
]
WIDTH, LINE, GAP, LEFT = 760, 32, 8, 12
RIGHT = WIDTH - 48  # end of the floors


def lines_of(rooms: list[str]) -> list[list[tuple[str, float, float]]]:
    """Rooms with their left ends and widths, in as many lines as they need."""
    lines: list[list[tuple[str, float, float]]] = [[]]
    x = LEFT + 14.0
    for room in rooms:
        width = 16 + 7.6 * len(room)
        if x + width > RIGHT - 10:
            lines.append([])
            x = LEFT + 14.0
        lines[-1].append((room, x, width))
        x += width + 8
    return lines


def floor(rooms: list[str], what: str, y: float) -> tuple[str, float]:
    """One floor, and its height."""
    lines = lines_of(rooms)
    height = 30 + LINE * len(lines)
    parts = [
        f'<rect x="{LEFT}" y="{y:.0f}" width="{RIGHT - LEFT}" height="{height}" rx="8" fill="#e8f1f8"/>',
        f'<text x="{LEFT + 14}" y="{y + 18:.0f}" fill="#444444" font-size="12">{what}</text>',
    ]
    for place, line in enumerate(lines):
        top = y + 26 + LINE * place
        for room, x, width in line:
            parts.append(
                f'<rect x="{x:.0f}" y="{top:.0f}" width="{width:.0f}" height="26" rx="5" fill="#ffffff" stroke="#0072B2"/>'
                f'<text class="room" x="{x + width / 2:.0f}" y="{top + 17:.0f}" text-anchor="middle">{room}</text>'
            )
    return f'<g class="floor">{"".join(parts)}</g>', height


def house(floors: list[set[str]]) -> str:
    """The picture as SVG, the highest floor first."""
    y, parts = float(GAP), []
    for rooms, what in zip(floors[::-1], WHAT[::-1], strict=True):
        drawn, height = floor(sorted(rooms), what, y)
        parts.append(drawn)
        y += height + GAP
    x, end = WIDTH - 28, y - 2 * GAP
    arrow = "stroke='#D55E00' stroke-width='2' fill='none'"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0f}" font-family="sans-serif" font-size="13">',
            f'<rect width="{WIDTH}" height="{y:.0f}" fill="#ffffff"/>',
            *parts,
            f"<path d='M{x} {2 * GAP} V{end:.0f}' {arrow}/>",
            f"<path d='M{x - 6} {end - 8:.0f} L{x} {end:.0f} L{x + 6} {end - 8:.0f}' {arrow}/>",
            f'<text transform="translate({x + 8} {y / 2:.0f}) rotate(90)" text-anchor="middle" fill="#B34700">may import</text>',
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    (HERE / "house.svg").write_text(house(runpy.run_path(str(TEST))["FLOORS"]))
