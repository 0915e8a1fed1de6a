# SPDX-License-Identifier: Apache-2.0
"""Joins the SQL of each version into what is installed: build.py FOLDER OUT

FOLDER/1.0/*.sql makes the schema; FOLDER/1.1/*.sql turns version 1.0 into 1.1, and so on. Written
to OUT, from the fragments of a version in the order of their names:

    once--1.0.sql, once--1.0--1.1.sql, once.control    what CREATE EXTENSION reads
    once.sql                          the same for `psql -f` where extensions cannot be put on disk
    once_schema.c, once_schema.h      once.sql for a program that installs or upgrades it itself
    once_schema.d                     what was read, for ninja

A released version is never changed: its database is upgraded by the next folder.
"""
import re
import sys
from pathlib import Path

SPDX = "-- SPDX-License-Identifier: Apache-2.0\n"
VERSION = re.compile(r"[0-9]+\.[0-9]+")
# Two who install at the same time go one after the other. "once" in hexadecimal.
LOCK = 0x6F6E6365


def number(version):
    return tuple(int(part) for part in version.split("."))


def versions(folder):
    found = [path.name for path in folder.iterdir() if path.is_dir()]
    return sorted(filter(VERSION.fullmatch, found), key=number)


def fragments(folder, version):
    return sorted((folder / version).glob("*.sql"))


def joined(folder, version):
    """The fragments of one version, each SPDX line but the first left out."""
    text = ""
    for path in fragments(folder, version):
        part = path.read_text(encoding="ascii")
        if not part.startswith(SPDX):
            raise SystemExit(f"{path}: does not open with {SPDX.strip()}")
        if re.search(r"^\s*\\", part, re.MULTILINE):
            raise SystemExit(f"{path}: has a command of psql; libpq runs this file too")
        if "$once_step$" in part:
            raise SystemExit(f"{path}: $once_step$ is the quote around it")
        text += part[len(SPDX):].strip("\n") + "\n\n"
    return text


def steps(folder):
    """[(from or None, to, text)]: how an empty database becomes the newest version."""
    before = None
    found = []
    for version in versions(folder):
        found.append((before, version, joined(folder, version)))
        before = version
    return found


def extension_files(found):
    for before, version, text in found:
        name = f"once--{before}--{version}.sql" if before else f"once--{version}.sql"
        how = f"ALTER EXTENSION once UPDATE TO '{version}'" if before else "CREATE EXTENSION once"
        yield name, f'{SPDX}\\echo Use "{how}" to load this file. \\quit\n\n{text}'
    yield "once.control", (
        "# SPDX-License-Identifier: Apache-2.0\n"
        "comment = 'exactly-once effects: idempotency keys in the transaction of the effect'\n"
        f"default_version = '{found[-1][1]}'\n"
        "relocatable = false\n"
        "superuser = false\n")


# An error is raised anew without the statement that it was in: that is the whole step.
STEP = """DO $once_do$
DECLARE
    detail text;
    hint text;
BEGIN
    IF {condition} THEN
        EXECUTE $once_step$
{text}$once_step$;
    END IF;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RAISE EXCEPTION USING ERRCODE = SQLSTATE, MESSAGE = 'once {version}: ' || SQLERRM,
        DETAIL = rtrim('Nothing was changed. ' || detail), HINT = CASE
            WHEN hint <> '' OR SQLSTATE <> '42501' THEN hint
            ELSE 'Run it as the owner of the schema once, or as a role with CREATE on the database.' END;
END
$once_do$;

"""


def script(found):
    """All steps in one transaction, each only where it is the next one. EXECUTE takes many
    statements, and reads each when the one before it is done."""
    newest = found[-1][1]
    known = ", ".join(f"'{version}'" for _, version, _ in found)
    text = f"""{SPDX}-- Once in plain SQL, version {newest}: installs the schema "once", or upgrades it. Run again it
-- changes nothing. One transaction: psql -v ON_ERROR_STOP=1 -f once.sql
BEGIN;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL client_min_messages = notice;
SET LOCAL standard_conforming_strings = on;

DO $once_do$
DECLARE
    present text;
BEGIN
    PERFORM pg_advisory_xact_lock({LOCK});
    IF current_setting('server_version_num')::int < 130000 THEN
        RAISE EXCEPTION 'Once needs PostgreSQL 13 or later; this is %',
            current_setting('server_version');
    END IF;
    SELECT e.extversion INTO present FROM pg_extension e WHERE e.extname = 'once';
    IF present IS NOT NULL AND present <> '{newest}' THEN
        RAISE EXCEPTION 'once is an extension here, version %', present
            USING HINT = 'ALTER EXTENSION once UPDATE;';
    END IF;
    IF to_regprocedure('once.version()') IS NOT NULL THEN
        EXECUTE 'SELECT once.version()' INTO present;
        IF present NOT IN ({known}) THEN
            RAISE EXCEPTION
                'the schema once is version %, which this script ({newest}) does not know', present
                USING HINT = 'Use the script of that version, or a later one.';
        END IF;
    END IF;
END
$once_do$;

"""
    for before, version, step in found:
        condition = (f"once.version() = '{before}'" if before
                     else "to_regprocedure('once.version()') IS NULL")
        text += STEP.format(condition=condition, version=version, text=step)
    return text + "COMMIT;\n"


HEADER = """/* SPDX-License-Identifier: Apache-2.0
 *
 * The schema of hosts/postgres for a program that installs it. Made by hosts/postgres/build.py.
 */
#ifndef ONCE_SCHEMA_H
#define ONCE_SCHEMA_H

#include <stddef.h>

/* What once.version() answers, oldest first; the last is what the script makes. */
extern const char *const once__schema_versions[];
extern const size_t once__schema_version_count;

/* once.sql: installs the schema or upgrades it, in a transaction of its own; does nothing to one
 * that is up to date. For PQexec; after an error the transaction is still open: ROLLBACK. Ends with
 * a NUL. */
extern const char once__schema_script[];

#endif
"""


def source(found):
    names = "".join(f'"{version}", ' for _, version, _ in found).rstrip(", ")
    data = script(found).encode("ascii") + b"\0"
    rows = (data[at:at + 24] for at in range(0, len(data), 24))
    body = ",\n    ".join(",".join(str(byte) for byte in row) for row in rows)
    return ("/* SPDX-License-Identifier: Apache-2.0\n *\n * Made by hosts/postgres/build.py. */\n"
            '#include "once_schema.h"\n\n'
            f"const char *const once__schema_versions[] = {{{names}}};\n"
            f"const size_t once__schema_version_count = {len(found)};\n"
            f"const char once__schema_script[] = {{\n    {body}}};\n")


def write(path, text):
    path.write_text(text, encoding="ascii")


def main(folder, out):
    folder, out = Path(folder), Path(out)
    found = steps(folder)
    for name, text in extension_files(found):
        write(out / name, text)
    write(out / "once.sql", script(found))
    write(out / "once_schema.h", HEADER)
    write(out / "once_schema.c", source(found))
    read = [folder / version for _, version, _ in found]
    read += [path for _, version, _ in found for path in fragments(folder, version)]
    write(out / "once_schema.d",
          f"{out / 'once_schema.c'}: " + " ".join(str(path) for path in read) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
