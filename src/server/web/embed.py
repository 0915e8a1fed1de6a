# SPDX-License-Identifier: Apache-2.0
"""Writes the dashboard's files into one C file: embed.py OUTPUT FILE...

The binary then serves them without a file of its own on disk, whatever compiled it. Each file comes
with its ETag, a hash of its bytes, so that a browser asks again and is told that nothing changed.
"""
import hashlib
import sys
from pathlib import Path

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def array(name, data):
    rows = (data[at:at + 20] for at in range(0, len(data), 20))
    body = ",\n    ".join(",".join(str(byte) for byte in row) for row in rows)
    return f"static const uint8_t {name}[] = {{\n    {body}}};\n"


def main(output, *sources):
    files = [(Path(source).name, Path(source)) for source in sorted(sources)]
    text = "/* Made by embed.py. */\n#include \"server/web.h\"\n\n"
    entries = []
    for index, (name, path) in enumerate(files):
        data = path.read_bytes()
        etag = hashlib.sha256(data).hexdigest()[:24]
        text += array(f"file_{index}", data)
        entries.append(f'    {{"{name}", "{TYPES[path.suffix]}", "\\"{etag}\\"", '
                       f'{{file_{index}, sizeof file_{index}}}}},\n')
    text += "\nconst struct once__web_file once__web_files[] = {\n" + "".join(entries) + "};\n"
    text += "const size_t once__web_file_count = "
    text += "sizeof once__web_files / sizeof once__web_files[0];\n"
    Path(output).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
