"""The page of `kiln inspect --html` in a browser without a window.

    page.py KILN MODEL.pt2 BROWSER SCREENSHOT.png

The page's script sets a mark when it has run; the screenshot must show more than an empty page.
"""

import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zlib

KILN, MODEL, BROWSER, SCREENSHOT = sys.argv[1:5]


def browse(page, profile, *options):
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               f"--user-data-dir={profile}", "--window-size=1200,1840", "--virtual-time-budget=3000",
               *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def colours_of(png):
    """How many different pixels a PNG of 8-bit RGB or RGBA without interlacing has."""
    data = png.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    at, packed, width, height, channels = 8, b"", 0, 0, 3
    while at < len(data):
        (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert depth == 8 and colour in (2, 6)
            channels = 3 if colour == 2 else 4
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    raw, stride = zlib.decompress(packed), width * channels
    above, pixels = bytearray(stride), set()
    for row in range(height):
        kind = raw[row * (stride + 1)]
        line = bytearray(raw[row * (stride + 1) + 1 : (row + 1) * (stride + 1)])
        for i in range(stride):
            left = line[i - channels] if i >= channels else 0
            up, corner = above[i], above[i - channels] if i >= channels else 0
            if kind == 1:
                line[i] = (line[i] + left) & 255
            elif kind == 2:
                line[i] = (line[i] + up) & 255
            elif kind == 3:
                line[i] = (line[i] + (left + up) // 2) & 255
            elif kind == 4:
                guess = left + up - corner
                best = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))
                line[i] = (line[i] + best[2]) & 255
        above = line
        pixels.update(bytes(line[i : i + 3]) for i in range(0, stride, channels * 7))
    return len(pixels)


with tempfile.TemporaryDirectory() as folder:
    page = pathlib.Path(folder) / "model.html"
    subprocess.run([KILN, "inspect", MODEL, "--html", str(page)], check=True, stdout=subprocess.DEVNULL)
    text = page.read_text()
    assert not re.search(r"""(src|href)=["']https?:|@import|url\(""", text), "the page needs something beside it"

    seen = browse(page, folder + "/profile", "--dump-dom")
    ready = re.search(r'data-ready="(\d+)"', seen.stdout)
    assert ready, seen.stderr[-2000:]
    kernels = seen.stdout.count('class="kernel"')
    assert int(ready.group(1)) == kernels > 0, (ready.group(1), kernels)
    assert 'class="picture"' in seen.stdout and 'class="arena"' in seen.stdout

    browse(page, folder + "/profile", f"--screenshot={SCREENSHOT}")
    colours = colours_of(pathlib.Path(SCREENSHOT))
    assert colours > 20, f"the screenshot has only {colours} colours"
    print(f"{kernels} kernels, a screenshot of {colours} colours: {SCREENSHOT}")
