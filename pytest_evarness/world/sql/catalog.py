"""The definitions that a PostgreSQL database holds, as the server itself writes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pytest_evarness.world.sql.part import COUNTER, Part, parts_of

__all__ = ["label", "parts", "quoted"]

# (kind, schema, name, schema and name of the table it belongs to, definition)
_DEFINITIONS: Final = """
WITH space AS (
  SELECT oid, nspname FROM pg_namespace
  WHERE nspname <> 'information_schema' AND nspname !~ '^pg_'
), given AS (
  SELECT classid, objid FROM pg_depend WHERE deptype = 'e'
), class AS (
  SELECT c.oid, c.relname, c.relkind, c.relispartition, c.relrowsecurity, c.relforcerowsecurity,
    s.nspname
  FROM pg_class c JOIN space s ON s.oid = c.relnamespace
  WHERE c.relpersistence <> 't'
    AND ('pg_class'::regclass, c.oid) NOT IN (SELECT classid, objid FROM given)
), part AS (
  SELECT c.oid, r.nspname, r.relname
  FROM class c JOIN class r ON r.oid = coalesce(pg_partition_root(c.oid)::oid, c.oid)
), owned AS (
  SELECT DISTINCT d.objid AS counter, d.refobjid AS owner FROM pg_depend d
  WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
    AND d.deptype IN ('a', 'i') AND d.refobjsubid > 0
  UNION
  SELECT d.refobjid, a.adrelid FROM pg_depend d JOIN pg_attrdef a ON a.oid = d.objid
  WHERE d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_class'::regclass
)
SELECT 'table', c.nspname, c.relname, r.nspname, r.relname, concat_ws(E'\\n',
  c.relrowsecurity, c.relforcerowsecurity,
  (SELECT string_agg(concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod),
      a.attnotnull, a.attidentity, a.attgenerated, pg_get_expr(d.adbin, d.adrelid)),
      E'\\n' ORDER BY a.attnum)
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
  (SELECT string_agg(concat_ws(' ', conname, pg_get_constraintdef(k.oid)), E'\\n' ORDER BY conname)
    FROM pg_constraint k WHERE k.conrelid = c.oid),
  (SELECT string_agg(concat_ws(' ', polname, polcmd, polroles, pg_get_expr(polqual, polrelid),
      pg_get_expr(polwithcheck, polrelid)), E'\\n' ORDER BY polname)
    FROM pg_policy p WHERE p.polrelid = c.oid),
  (SELECT string_agg(tgenabled::text, '' ORDER BY tgenabled)
    FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgisinternal))
FROM class c JOIN part r ON r.oid = c.oid WHERE c.relkind IN ('r', 'p')
UNION ALL
SELECT 'view', nspname, relname, NULL, NULL, pg_get_viewdef(oid)
FROM class WHERE relkind IN ('v', 'm')
UNION ALL
SELECT 'index', c.nspname, c.relname, r.nspname, r.relname, pg_get_indexdef(c.oid)
FROM class c JOIN pg_index i ON i.indexrelid = c.oid JOIN part r ON r.oid = i.indrelid
WHERE NOT c.relispartition
UNION ALL
SELECT 'trigger', r.nspname, t.tgname, r.nspname, r.relname,
  concat_ws(' ', pg_get_triggerdef(t.oid), t.tgenabled)
FROM pg_trigger t JOIN part r ON r.oid = t.tgrelid WHERE NOT t.tgisinternal
UNION ALL
SELECT 'rule', r.nspname, w.rulename, r.nspname, r.relname,
  concat_ws(' ', pg_get_ruledef(w.oid), w.ev_enabled)
FROM pg_rewrite w JOIN part r ON r.oid = w.ev_class WHERE w.rulename <> '_RETURN'
UNION ALL
SELECT 'routine', s.nspname, p.proname, NULL, NULL,
  CASE WHEN p.prokind = 'a' THEN concat_ws(' ', pg_get_function_identity_arguments(p.oid),
    p.prosrc) ELSE pg_get_functiondef(p.oid) END
FROM pg_proc p JOIN space s ON s.oid = p.pronamespace
WHERE ('pg_proc'::regclass, p.oid) NOT IN (SELECT classid, objid FROM given)
UNION ALL
SELECT 'sequence', c.nspname, c.relname, r.nspname, r.relname, concat_ws(' ',
  format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmax, s.seqmin, s.seqcache,
  s.seqcycle)
FROM class c JOIN pg_sequence s ON s.seqrelid = c.oid
LEFT JOIN part r ON r.oid = (
  SELECT min(o.owner) FROM owned o WHERE o.counter = c.oid HAVING count(*) = 1)
"""
_KEEPERS: Final = """
SELECT c.relkind::text, n.nspname, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE (c.relkind = 'S' OR (c.relkind = 'm' AND c.relispopulated)) AND c.relpersistence <> 't'
  AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
"""


def quoted(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'


def label(schema: str, name: str) -> str:
    """How something is called in a snapshot."""
    return name if schema == "public" else f"{schema}.{name}"


def parts(connection: Any, masker: Any = None) -> dict[Part, str]:
    """All definitions with their digests, and where counters are; within a transaction.

    Names are written in full, whatever path somebody has set; that path stays as it is.
    """
    connection.execute("SAVEPOINT evarness_parts; SET LOCAL search_path = pg_catalog")
    try:
        return parts_of(_found(connection), masker)
    finally:
        connection.execute("ROLLBACK TO evarness_parts; RELEASE evarness_parts")


def _found(connection: Any) -> Iterator[tuple[Part, Any]]:
    rows = connection.execute(_DEFINITIONS).fetchall()
    kept = dict(_kept(connection))
    for kind, schema, name, owner_schema, owner, definition in rows:
        table = None if owner is None else label(owner_schema, owner)
        own = label(schema, name)
        held = kept.get(own) if kind in (COUNTER, "view") else None
        yield Part(kind, own, table), [definition, held]


def _kept(connection: Any) -> Iterator[tuple[str, str]]:
    """Where each counter is, and what rows a materialized view has stored."""
    asked = {
        "S": "SELECT concat_ws(' ', last_value, is_called) FROM {}",
        "m": "SELECT concat_ws(' ', count(*), sum(hashtextextended(x::text, 0))) FROM {} x",
    }
    for kind, schema, name in connection.execute(_KEEPERS).fetchall():
        query = asked[kind].format(f"{quoted(schema)}.{quoted(name)}")
        yield label(schema, name), connection.execute(query).fetchone()[0]
