# SPDX-License-Identifier: Apache-2.0
"""Who may do what on hosts/postgres. A role without rights gets nothing: no table, view, sequence
or function, whatever the catalog holds. The roles of Once get functions and no table. And a caller
who puts functions, operators, types and tables of his own in the way of a function with the owner's
rights runs none of them.
"""
import psycopg
import pytest
from pg_tools import PgSession, break_function

DENIED = "42501"
ROLES = ("once_app", "once_operator", "once_server")
# What an application may say. An operator may say this and OPERATOR, a server SERVER.
APP = {"begin", "complete", "fail", "checkpoint", "renew", "get", "fingerprint", "version",
       "now_ms", "apply", "apply_call", "apply_answer", "seen", "grant", "guard", "machine",
       "move", "state", "emit", "take", "ack", "release", "mine", "refuse", "merge_max",
       "merge_min", "merge_or", "merge_union", "merge_vv", "merge_gcounter", "merge_lww",
       "merge_counts", "check_counts", "check_lww", "gcounter_add", "gcounter_value", "vv_tick",
       "vv_order", "lww"}
OPERATOR = APP | {"resolve", "forget", "sweep", "machine_change", "text_of", "state_at", "time_of"}
SERVER = {"calls", "tick", "now_ms", "version", "sweep", "mine", "list", "numbers", "hold",
          "hold_objects", "moment", "keep", "keep_objects", "settled", "sweep_lanes", "object_get",
          "object_list"}
MAY = {"once_app": APP, "once_operator": OPERATOR, "once_server": SERVER}
VIEWS = {"once_app": set(), "once_operator": {"doubts", "stats", "waiting"}, "once_server": set()}

RELATIONS = ("SELECT relname, relkind::text FROM pg_class WHERE relnamespace = 'once'::regnamespace"
             " AND relkind IN ('r', 'v', 'm', 'S', 'p', 'f') ORDER BY 1")
CALLS = """
    SELECT p.proname, p.oid::regprocedure::text,
           format('SELECT once.%I(%s)', p.proname,
                  (SELECT string_agg('NULL::' || format_type(t, NULL), ', ' ORDER BY n)
                   FROM unnest(p.proargtypes) WITH ORDINALITY AS a (t, n)))
    FROM pg_proc p WHERE p.pronamespace = 'once'::regnamespace
        AND p.prorettype <> 'trigger'::regtype ORDER BY 2"""


@pytest.fixture(scope="module")
def owner(pg):
    """A database with Once, and a role that nobody granted anything: it may connect."""
    with PgSession(pg.installed()) as session:
        for role in ("stranger", "app", "boss", "server"):
            session.rows(f"DROP ROLE IF EXISTS rights_{role}")
            session.rows(f"CREATE ROLE rights_{role} LOGIN")
        session.rows("GRANT once_app TO rights_app")
        session.rows("GRANT once_operator TO rights_boss")
        session.rows("GRANT once_server TO rights_server")
        session.rows("SELECT once.begin('secret', 'k')")
        yield session
        session.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename LIKE"
                     " 'rights_%'")
        for role in ("stranger", "app", "boss", "server"):
            session.rows(f"DROP OWNED BY rights_{role} CASCADE")
            session.rows(f"DROP ROLE rights_{role}")


def connect(pg, owner, role):
    return pg.session(owner.connection.info.dbname, role)


def denied(session, text):
    """Did the database refuse it for want of rights?"""
    try:
        with session.transaction() as undo:
            session.rows(text)
            raise psycopg.Rollback(undo)
    except psycopg.Error as error:
        return error.sqlstate == DENIED
    return False


def statements(name, kind):
    if kind == "S":
        return [f'SELECT * FROM once."{name}"', f"SELECT nextval('once.{name}')",
                f"SELECT setval('once.{name}', 1)", f"SELECT currval('once.{name}')"]
    found = [f'SELECT * FROM once."{name}"', f'SELECT count(*) FROM once."{name}"',
             f'DROP {KINDS[kind]} once."{name}" CASCADE']
    if kind == "r":
        found += [f'{what} once."{name}"{more}' for what, more in (
            ("DELETE FROM", ""), ("TRUNCATE", ""), ("LOCK", ""), ("COPY", " TO STDOUT"),
            ("INSERT INTO", " DEFAULT VALUES"), ("ALTER TABLE", " DISABLE TRIGGER ALL"))]
    return found


KINDS = {"r": "TABLE", "v": "VIEW", "m": "MATERIALIZED VIEW"}


@pytest.mark.parametrize("usage", [False, True], ids=["", "even where the schema is open"])
def test_a_stranger_gets_nothing(pg, owner, usage):
    relations, calls = owner.rows(RELATIONS), owner.rows(CALLS)
    assert len(relations) > 3 and len(calls) > 20
    if usage:
        owner.rows("GRANT USAGE ON SCHEMA once TO rights_stranger")
    try:
        with connect(pg, owner, "rights_stranger") as stranger:
            got = [text for name, kind in relations for text in statements(name, kind)
                   if not denied(stranger, text)]
            got += [text for _, _, text in calls if not denied(stranger, text)]
            got += [text for text in ("CREATE TABLE once.mine (i integer)",
                                      "CREATE FUNCTION once.begin() RETURNS int LANGUAGE sql AS"
                                      " 'SELECT 1'", "DROP SCHEMA once CASCADE",
                                      "SET ROLE once_app", "SET ROLE once_server")
                    if not denied(stranger, text)]
        assert got == []
    finally:
        owner.rows("REVOKE USAGE ON SCHEMA once FROM rights_stranger")


@pytest.mark.parametrize("broken", ["GRANT EXECUTE ON FUNCTION once.get(text, text) TO PUBLIC",
                                    "GRANT SELECT ON once.scope TO PUBLIC",
                                    "GRANT SELECT (role) ON once.scope TO PUBLIC",
                                    "GRANT USAGE ON SEQUENCE once.fence_seq TO PUBLIC"])
def test_a_right_too_many_is_found(pg, owner, broken):
    owner.rows("GRANT USAGE ON SCHEMA once TO rights_stranger")
    owner.rows(broken)
    try:
        with connect(pg, owner, "rights_stranger") as stranger:
            texts = [text for name, kind in owner.rows(RELATIONS)
                     for text in statements(name, kind)]
            texts += [text for _, _, text in owner.rows(CALLS)]
            assert not all(denied(stranger, text) for text in texts)
        assert publicly_given(owner) != []
    finally:
        owner.rows(broken.replace("GRANT", "REVOKE").replace(" TO ", " FROM "))
        owner.rows("REVOKE USAGE ON SCHEMA once FROM rights_stranger")


def publicly_given(owner):
    """Rights of PUBLIC, of a column too. A function without a list of rights is everybody's."""
    return owner.rows("""
        SELECT p.oid::regprocedure::text, 'everybody' FROM pg_proc p
        WHERE p.pronamespace = 'once'::regnamespace AND (p.proacl IS NULL OR EXISTS
            (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = 0))
        UNION ALL
        SELECT c.oid::regclass::text, 'everybody' FROM pg_class c
        WHERE c.relnamespace = 'once'::regnamespace AND EXISTS
            (SELECT FROM aclexplode(c.relacl) a WHERE a.grantee = 0)
        UNION ALL
        SELECT t.attrelid::regclass::text || '.' || t.attname, 'by column'
        FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid
        WHERE c.relnamespace = 'once'::regnamespace AND t.attacl IS NOT NULL
        UNION ALL
        SELECT nspname, 'everybody' FROM pg_namespace n WHERE nspname = 'once' AND EXISTS
            (SELECT FROM aclexplode(n.nspacl) a WHERE a.grantee = 0)""")


def test_nothing_is_everybodys(owner):
    assert publicly_given(owner) == []


def test_roles_have_what_they_need_and_no_more(owner):
    for role in ROLES:
        functions = {name for name, in owner.rows(
            "SELECT DISTINCT proname FROM pg_proc p WHERE pronamespace = 'once'::regnamespace AND"
            " has_function_privilege(%s, p.oid, 'EXECUTE')", role)}
        assert functions == MAY[role], role
        tables = {name for name, in owner.rows(
            "SELECT relname FROM pg_class c WHERE relnamespace = 'once'::regnamespace AND relkind"
            " IN ('r', 'v', 'm', 'p', 'f') AND (has_table_privilege(%s, c.oid, 'SELECT, INSERT,"
            " UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER') OR has_any_column_privilege(%s,"
            " c.oid, 'SELECT, INSERT, UPDATE, REFERENCES'))", role, role)}
        assert tables == VIEWS[role], role
        assert owner.rows("SELECT relname FROM pg_class c WHERE relnamespace = 'once'::regnamespace"
                          " AND CASE relkind WHEN 'S' THEN has_sequence_privilege(%s, c.oid,"
                          " 'USAGE, SELECT, UPDATE') END", role) == []
        assert not owner.value("SELECT has_schema_privilege(%s, 'once', 'CREATE')", role)
        assert owner.one("SELECT rolsuper, rolcreaterole, rolcreatedb, rolcanlogin, rolbypassrls"
                         " FROM pg_roles WHERE rolname = %s", role) == (False,) * 5
        assert owner.rows("SELECT 1 FROM pg_proc p, aclexplode(p.proacl) a WHERE p.pronamespace ="
                          " 'once'::regnamespace AND a.is_grantable AND a.grantee <> p.proowner"
                          ) == []


@pytest.mark.parametrize("role", ["rights_app", "rights_boss", "rights_server"])
def test_members_reach_no_table_and_no_other_function(pg, owner, role):
    group = {"rights_app": "once_app", "rights_boss": "once_operator",
             "rights_server": "once_server"}[role]
    with connect(pg, owner, role) as member:
        reached = [text for name, kind in owner.rows(RELATIONS) if name not in VIEWS[group]
                   for text in statements(name, kind) if not denied(member, text)]
        reached += [text for name, _, text in owner.rows(CALLS)
                    if name not in MAY[group] and not denied(member, text)]
        assert reached == []


def test_an_application_does_its_work_and_an_operator_resolves(pg, owner):
    with connect(pg, owner, "rights_app") as app, connect(pg, owner, "rights_boss") as boss:
        fence = app.value("SELECT fence FROM once.begin('work', 'k')")
        assert app.value("SELECT once.renew('work', 'k', %s, 0)", fence) == "OK"
        assert denied(app, "SELECT once.resolve('work', 'k', true)")
        assert boss.value("SELECT count(*) FROM once.doubts WHERE ns = 'work'") == 1
        assert boss.value("SELECT once.resolve('work', 'k', true, 0, 'found')") == "OK"
        assert app.one("SELECT verdict, result FROM once.begin('work', 'k')") == (
            "REPLAY", b"found")


# ---- Things in the way ---------------------------------------------------------------------------

DEFINERS = ("SELECT p.proname, p.oid::regprocedure::text, p.prosrc, coalesce(p.proconfig, '{}'),"
            " r.rolname FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner WHERE p.pronamespace ="
            " 'once'::regnamespace AND p.prosecdef")


# These name everything wholly instead, for speed: the attack below is what holds them to it.
WITHOUT_A_PATH = {"begin", "complete"}


def test_functions_with_the_owners_rights_look_in_the_catalog_first_and_in_temporary_last(owner):
    found = owner.rows(DEFINERS)
    assert len(found) > 8
    for name, signature, _, settings, _ in found:
        paths = [s for s in settings if s.startswith("search_path=")]
        if name not in WITHOUT_A_PATH:
            assert paths == ["search_path=pg_catalog, pg_temp"], signature


def put_in_the_way(attacker):
    """In a schema of the attacker's that comes first: a function by the name and with the arguments
    of every one that the functions of Once call, operators on the types that they compare, types by
    the names of the catalog's and tables by the names of theirs; types and tables also among the
    temporary ones, which come before all. All of them note when they run as somebody else."""
    attacker.rows("SET search_path = evil, pg_catalog, pg_temp")
    made = 0
    for text, in attacker.rows("SELECT public.evil_statements()"):
        try:
            with attacker.transaction():
                attacker.rows(text)
            made += 1
        except psycopg.Error:
            pass  # a pseudo-type, or an operator that cannot be made
    for schema in ("evil", "pg_temp"):
        for kind in ("text", "bytea", "jsonb", "uuid", "name", "int8", "int4", "int2", "bool"):
            attacker.rows(f"CREATE FUNCTION {schema}.watch(pg_catalog.{kind}) RETURNS boolean"
                          f" LANGUAGE plpgsql AS $e$ BEGIN PERFORM public.note('{kind}');"
                          " RETURN true; END $e$")
            attacker.rows(f"CREATE DOMAIN {schema}.{kind} AS pg_catalog.{kind}"
                          f" CHECK ({schema}.watch(VALUE))")
    for table in ("operation", "clock", "machine", "entity", "message", "resource", "outbox",
                  "scope", "object"):
        attacker.rows(f"CREATE TEMPORARY TABLE {table} (ns text, key text)")
    attacker.rows("CREATE TEMPORARY SEQUENCE fence_seq")
    return made


STATEMENTS = r"""
CREATE FUNCTION public.evil_statements() RETURNS SETOF text LANGUAGE sql SECURITY DEFINER AS $f$
    WITH used AS (
        SELECT DISTINCT m[1] AS name FROM pg_proc p,
            regexp_matches(p.prosrc, '\m([a-z_0-9]+)\(', 'g') m
        WHERE p.pronamespace = 'once'::regnamespace)
    SELECT format('CREATE FUNCTION evil.%I(%s) RETURNS %s LANGUAGE plpgsql AS $e$ BEGIN PERFORM
            public.note(%L); RETURN NULL; END $e$', p.proname,
            (SELECT string_agg(format_type(t, NULL), ', ' ORDER BY n)
             FROM unnest(p.proargtypes) WITH ORDINALITY a (t, n)),
            format_type(p.prorettype, NULL), p.proname)
    FROM pg_proc p JOIN used u ON u.name = p.proname
    WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND NOT p.proretset
    UNION ALL
    SELECT format('CREATE FUNCTION evil.%I(a %s, b %s) RETURNS %s LANGUAGE plpgsql AS $e$ BEGIN
            PERFORM public.note(%L); RETURN NULL; END $e$; CREATE OPERATOR evil.%s (LEFTARG = %s,
            RIGHTARG = %s, FUNCTION = evil.%I)', 'op_' || o.oid, o.oprleft::regtype,
            o.oprright::regtype, o.oprresult::regtype, o.oprname, o.oprname, o.oprleft::regtype,
            o.oprright::regtype, 'op_' || o.oid)
    FROM pg_operator o
    WHERE o.oprnamespace = 'pg_catalog'::regnamespace
        AND o.oprname IN ('=', '<>', '<', '>', '<=', '>=', '||', '+', '-', '~', '!~', '%')
        AND o.oprleft IN ('text'::regtype, 'int8'::regtype, 'int4'::regtype, 'int2'::regtype,
                          'bytea'::regtype, 'bool'::regtype, 'numeric'::regtype, 'name'::regtype,
                          'uuid'::regtype, 'jsonb'::regtype)
        AND o.oprright IN ('text'::regtype, 'int8'::regtype, 'int4'::regtype, 'int2'::regtype,
                           'bytea'::regtype, 'bool'::regtype, 'numeric'::regtype, 'name'::regtype,
                           'uuid'::regtype, 'jsonb'::regtype)
$f$"""
# Everything that an application says, and every answer to it.
DAY = [
    "SELECT fence FROM once.begin('hijack', 'k', 'f', 'me')",
    "SELECT once.checkpoint('hijack', 'k', {fence}, 'half', 'data')",
    "SELECT once.renew('hijack', 'k', {fence}, 60000)",
    "SELECT verdict FROM once.begin('hijack', 'k', 'f', 'me', wait => false)",
    "SELECT once.complete('hijack', 'k', {fence}, 0, 'r')",
    "SELECT verdict FROM once.begin('hijack', 'k', 'f')",
    "SELECT verdict FROM once.begin('hijack', 'k', 'other')",
    "SELECT verdict FROM once.begin('hijack', '019b76da-a800-7000-8000-000000000001',"
    " ttl_ms => 315576000000)",
    "SELECT verdict FROM once.begin('hijack', '019b76da-a800-7000-8000-000000000002')",
    "SELECT verdict FROM once.begin('hijack', 'k3', NULL, NULL, 86400000, 1, 'retry')",
    "SELECT verdict FROM once.begin('hijack', 'k4')",
    "SELECT verdict FROM once.begin('hijack', 'k4')",
    "SELECT state FROM once.get('hijack', 'k')",
    "SELECT once.fail('hijack', 'k2', (once.begin('hijack', 'k2')).fence, 'why')",
    "SELECT once.seen('hijack', 't', 'm')",
    "SELECT once.guard('hijack', once.grant('hijack'))",
    "SELECT once.machine('hijack', ARRAY['a>b'])",
    "SELECT once.move('hijack', 'e', 'a', 'b')",
    "SELECT once.state('hijack', 'e')",
    "SELECT once.emit('hijack', '{{}}', 'g')",
    "SELECT once.ack(id, token) FROM once.take('hijack')",
    "SELECT once.apply('hijack', 'k5', '{{\"a\": 1}}', 'public.echo')",
    "SELECT once.apply('hijack', 'k5', '{{\"a\": 1}}', 'public.echo')",
    "SELECT once.now_ms()",
]
REFUSED = [
    "SELECT once.complete('hijack', 'k', {fence}, 1, 'another')",
    "SELECT once.complete('hijack', 'k', 1)",
    "SELECT once.complete('hijack', 'nothing', 1)",
    "SELECT once.complete('hijack', '', 1)",
    "SELECT once.complete('not yours', 'k', {fence})",
    "SELECT once.complete('elsewhere', 'k', {fence})",
    "SELECT once.begin('hijack', '')",
    "SELECT once.begin('', 'k')",
    "SELECT once.begin(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "SELECT once.begin('hijack', E'line\\nbreak')",
    "SELECT once.begin('hijack', 'k', lease_ms => -1)",
    "SELECT once.begin('hijack', 'k', on_doubt => 'maybe')",
    "SELECT once.begin('hijack', 'ffffffff-ffff-7000-8000-000000000001')",
    "SELECT once.begin('hijack', 'k', owner => pg_catalog.repeat('x', 65))",
    "SELECT once.checkpoint('hijack', 'k', 1, '')",
    "SELECT once.renew('hijack', 'k', 1, -1)",
    "SELECT once.fail('hijack', 'k', 1, pg_catalog.repeat('x', 5000))",
    "SELECT once.seen('', '', '')",
    "SELECT once.guard('hijack', 0)",
    "SELECT once.move('hijack', 'e', 'b', 'a')",
]


@pytest.fixture
def evil(pg):
    """(owner, attacker) on a database of their own."""
    with PgSession(pg.installed()) as owner:
        name = owner.connection.info.dbname
        role = f"evil_{name}"
        owner.rows(f"CREATE ROLE {role} LOGIN")
        owner.rows(f"GRANT once_app TO {role}")
        owner.rows(f"CREATE SCHEMA evil AUTHORIZATION {role}")
        owner.rows("CREATE SEQUENCE public.noted")
        owner.rows("""CREATE FUNCTION public.note(what text) RETURNS void LANGUAGE plpgsql AS $$
            BEGIN IF pg_catalog.textne(current_user::pg_catalog.text, session_user::pg_catalog.text)
            THEN PERFORM pg_catalog.nextval('public.noted'); RAISE WARNING '% ran', what; END IF;
            END $$""")
        owner.rows("GRANT USAGE ON SEQUENCE public.noted TO PUBLIC")
        owner.rows("CREATE FUNCTION public.echo(jsonb) RETURNS jsonb LANGUAGE sql AS"
                   " $$ SELECT $1 $$")
        owner.rows(STATEMENTS)
        with pg.session(name, role) as attacker:
            attacker.heard = []
            attacker.connection.add_notice_handler(
                lambda d: attacker.heard.append(f"{d.message_primary} {d.context}"))
            yield owner, attacker
        owner.rows(f"DROP OWNED BY {role} CASCADE")
        owner.rows(f"DROP ROLE {role}")


def live(attacker):
    """A day's work in the attacker's own search path. What was answered."""
    answers, fence = [], 0
    for text in DAY:
        found = attacker.rows(text.format(fence=fence))
        fence = fence or found[0][0]
        answers.append(found)
    for text in REFUSED:
        try:
            attacker.rows(text.format(fence=fence))
        except psycopg.Error:
            continue
        raise AssertionError(f"not refused: {text}")
    return answers


def noted(owner):
    return owner.value("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM public.noted")


@pytest.mark.parametrize("scoped", [False, True], ids=["", "confined to a namespace"])
def test_nothing_of_the_callers_runs_with_the_owners_rights(evil, scoped):
    owner, attacker = evil
    if scoped:
        owner.rows("INSERT INTO once.scope VALUES (%s, 'hijack')", attacker.connection.info.user)
    assert put_in_the_way(attacker) > 100
    answers = live(attacker)
    assert noted(owner) == 0, "\n".join(sorted(set(attacker.heard)))[:4000]
    assert answers[3:7] == [[("EXECUTE",)], [("OK",)], [("REPLAY",)], [("MISMATCH",)]]
    assert owner.value("SELECT count(*) FROM once.operation WHERE ns = 'hijack'") == 6
    if scoped:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            attacker.rows("SELECT once.begin('elsewhere', 'k')")


@pytest.mark.parametrize("function", ["fail", "get", "seen"])
def test_a_function_that_looks_where_the_caller_says_is_found(evil, function):
    """Without its own search path, as a mistake would leave it."""
    owner, attacker = evil
    signature = [s for name, s, *_ in owner.rows(DEFINERS) if name == function][0]
    owner.rows(f"ALTER FUNCTION {signature} RESET search_path")
    put_in_the_way(attacker)
    try:
        live(attacker)
    except psycopg.Error:
        pass  # functions that give NULL where nobody expects it
    assert noted(owner) > 0


@pytest.mark.parametrize("function, pattern, replacement", [
    ("begin", r"OPERATOR\(pg_catalog\.<=\)", "<="),
    ("begin", r"pg_catalog\.octet_length", "octet_length"),
    ("fingerprint_of", r"::pg_catalog\.bytea", "::bytea"),
    ("complete", r"OPERATOR\(pg_catalog\.=\)", "="),
    ("fingerprint_of", r"OPERATOR\(pg_catalog\.=\)", "=")])
def test_one_name_that_is_not_whole_is_found(evil, function, pattern, replacement):
    owner, attacker = evil
    break_function(owner.connection.info.dsn, function, pattern, replacement)
    put_in_the_way(attacker)
    try:
        live(attacker)
    except (psycopg.Error, AssertionError):
        pass
    assert noted(owner) > 0
