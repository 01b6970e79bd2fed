"""Options and their ini twins: read once, refused before collection, never later."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fractions import Fraction

    from pytest_evarness.source.walk import Found

__all__ = [
    "add_options",
    "asked_paths",
    "check_min_scenarios",
    "check_options",
    "check_something_ran",
    "count_found",
    "decisions_for_nothing",
    "diagnoses_nothing",
    "end",
    "exports",
    "final_code",
    "is_another_way",
    "is_here",
    "is_on_command_line",
    "is_relevant",
    "is_scenario_session",
    "key_words",
    "may_be_ours",
    "min_coverage",
    "min_scenarios",
    "must_fail",
    "refused_folders",
    "setting",
    "yaml_files",
]

FOUND: pytest.StashKey[list[int]] = pytest.StashKey()
"""Scenario files found in this process, and those that xdist workers report."""

RED: pytest.StashKey[bool] = pytest.StashKey()
"""Something of ours failed, so the exit code is not 0."""

BELOW: pytest.StashKey[dict[Path, Found]] = pytest.StashKey()
"""What lies below our folders."""

MODES = ("release", "exploratory", "diagnostic")


@dataclass(frozen=True)
class _Option:
    name: str
    help: str
    kind: str  # of the ini twin
    metavar: str | None = None
    choices: tuple[str, ...] | None = None
    later: str | None = None


_OPTIONS = (
    _Option("bundle", "where the proof bundle goes; 'none' writes none", "string", "PATH"),
    _Option(
        "bundle-events",
        "enclose events in full, or digests only",
        "string",
        choices=("full", "digest"),
    ),
    _Option("key", "signing key (PEM); $EVARNESS_SIGNING_KEY otherwise", "string", "PATH"),
    _Option("unsigned", "sign nothing", "bool"),
    _Option("mode", "overrides every scenario's mode", "string", "MODE"),
    _Option("diagnose", "cases of mode diagnostic go on behind a block, observed only", "bool"),
    _Option("strict-vacuity", "a vacuous pass counts as indeterminate", "bool"),
    _Option(
        "rerun",
        "where run B happens: its own process, or this one",
        "string",
        choices=("mirror", "inline"),
    ),
    _Option(
        "approve", "CASE:NODE=approve|reject, one decision; repeatable", "linelist", "DECISION"
    ),
    _Option("executor", "where replicas run", "string", "EXECUTOR", later="executors are"),
    _Option("html", "HTML report", "string", "PATH", later="HTML reports are"),
    _Option("junit", "JUnit report with types, lines and properties", "string", "PATH"),
    _Option("sarif", "SARIF report", "string", "PATH", later="SARIF reports are"),
    _Option("otlp", "OTLP report", "string", "PATH", later="OTLP reports are"),
    _Option("min-scenarios", "fewer scenario files found: exit 1", "string", "N"),
    _Option(
        "min-coverage",
        "less of the harness exercised (nodes, edges, approval branches, tools): exit 1",
        "string",
        "PERCENT",
    ),
    _Option(
        "export", "NAME=PATH, a report of a plug-in's exporter; repeatable", "linelist", "EXPORT"
    ),
)


def add_options(parser: pytest.Parser) -> None:
    """Offer each option and its ini twin."""
    group = parser.getgroup("evarness", "agent harness scenarios (pytest-evarness)")
    for option in _OPTIONS:
        text = f"{option.help} (not in this version)" if option.later else option.help
        flags: dict[str, Any] = {"dest": _dest(option.name), "help": text}
        if option.kind == "bool":
            flags |= {"action": "store_const", "const": True, "default": None}
        elif option.kind == "linelist":
            flags |= {"action": "append", "default": None, "metavar": option.metavar}
        else:
            flags |= {"action": "store", "default": None}
            if option.choices:
                flags["choices"] = option.choices
            else:
                flags["metavar"] = option.metavar
        group.addoption(f"--evarness-{option.name}", **flags)
        parser.addini(_dest(option.name), option.help, type=option.kind, default=None)  # type: ignore[arg-type]
    parser.addini(
        "evarness_scenarios", "folders of scenario files", type="args", default=["scenarios"]
    )
    parser.addini(
        "evarness_contracts", "folders of contract libraries", type="args", default=["contracts"]
    )


def _dest(name: str) -> str:
    return "evarness_" + name.replace("-", "_")


def setting(config: pytest.Config, name: str) -> Any:
    """The value of ``--evarness-NAME``, else of its ini twin, else None."""
    dest = _dest(name)
    value = config.getoption(dest, None)
    if value is not None:
        return value
    value = config.getini(dest)
    return None if value in ("", [], False) else value


def path_setting(config: pytest.Config, name: str) -> Path | None:
    """A path: of the option from the invocation directory, of the ini value from rootdir."""
    dest = _dest(name)
    value = config.getoption(dest, None)
    if value is not None:
        return Path(config.invocation_params.dir, value)
    value = config.getini(dest)
    return config.rootpath / value if value else None


def folders(config: pytest.Config, name: str) -> tuple[Path, ...]:
    """The folders of ``evarness_scenarios`` or ``evarness_contracts``, from rootdir."""
    return tuple(_normal(config.rootpath / folder) for folder in config.getini(name))


def _normal(path: Path) -> Path:
    """Without ``..``, which would hide that one path lies below another."""
    return Path(os.path.normpath(path))


_INI_KEY = re.compile(r"""^[ \t]*["']?(evarness_\w+)["']?[ \t]*=""", re.MULTILINE)
_INI_BYTES = 1 << 20


def _check_ini_keys(config: pytest.Config) -> None:
    """A misspelt key of ours is a demand that is not in force; pytest itself only warns.

    The file is looked at as text: pytest offers no list of its keys.
    """
    keys = [str(word).partition("=")[0] for word in config.getoption("override_ini", None) or ()]
    if config.inipath is not None:
        with suppress(OSError, UnicodeDecodeError), config.inipath.open("rb") as file:
            keys += _INI_KEY.findall(file.read(_INI_BYTES).decode("utf-8"))
    known = {_dest(option.name) for option in _OPTIONS}
    known |= {"evarness_scenarios", "evarness_contracts"}
    for key in keys:
        if key.startswith("evarness_") and key not in known:
            near = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.6)
            fix = f"; write '{near[0]}'" if near else ""
            raise pytest.UsageError(f"evarness: unknown ini key (got '{key}'{fix})")


def check_options(config: pytest.Config) -> None:
    """Refuse what cannot be used.

    Raises:
        pytest.UsageError: With the option, the value met and the rule.
    """
    _check_ini_keys(config)
    for option in _OPTIONS:
        value = setting(config, option.name)
        if value is None:
            continue
        flag = f"--evarness-{option.name}"
        if option.later:
            raise pytest.UsageError(f"{flag}: {option.later} not in this version (got {value!r})")
        if option.choices and value not in option.choices:
            raise pytest.UsageError(
                f"{flag}: not a choice (got {value!r}; {', '.join(option.choices)})"
            )
    mode = setting(config, "mode")
    if mode is not None and mode not in MODES:
        raise pytest.UsageError(f"--evarness-mode: not a mode (got {mode!r}; {', '.join(MODES)})")
    for text in setting(config, "approve") or ():
        _check_approval(text)
    _check_count(config)
    _check_folders(config)
    min_coverage(config)
    if exports(config) and setting(config, "bundle") == "none":
        raise pytest.UsageError(
            "--evarness-export: rendered from the bundle, so not with --evarness-bundle=none"
        )
    if setting(config, "unsigned") and config.getoption(_dest("key"), None) is not None:
        raise pytest.UsageError("--evarness-unsigned and --evarness-key: only one of them")
    key = path_setting(config, "key")
    if key is not None and not setting(config, "unsigned") and not key.is_file():
        raise pytest.UsageError(f"--evarness-key: no such file (got {setting(config, 'key')!r})")
    bundle = path_setting(config, "bundle")
    if setting(config, "bundle") == "none":
        if setting(config, "junit") is not None:
            raise pytest.UsageError(
                "--evarness-junit: rendered from the bundle, so not with --evarness-bundle=none"
            )
    elif bundle is not None and bundle.is_dir():
        raise pytest.UsageError(
            f"--evarness-bundle: must name a file (got the folder {setting(config, 'bundle')!r})"
        )


FOLDERS = {"evarness_scenarios": "scenarios", "evarness_contracts": "contracts"}
"""Ini options that name folders, with the one that is looked into where it is there."""


def _check_folders(config: pytest.Config) -> None:
    """What is named is there: a library at the wrong place would judge nothing.

    Raises:
        pytest.UsageError: It is not, or it is something else than a folder.
    """
    for name, default in FOLDERS.items():
        named = config.getini(name)
        if not named:
            raise pytest.UsageError(f"{name}: names no folder (remove it for '{default}')")
        for word in named:
            path = config.rootpath / word
            if path.is_dir():
                continue
            if path.exists() or path.is_symlink():
                # A project that has no use for us may call a file as it likes.
                if word != default or is_relevant(config):
                    raise pytest.UsageError(f"{name}: is no folder (got {word!r}, from the root)")
            elif word != default:
                fix = _near_folder(config.rootpath, word) or f"make it, or remove {name}"
                raise pytest.UsageError(
                    f"{name}: no such folder (got {word!r}, from the root); try: {fix}"
                )
    if is_relevant(config) and (
        os.environ.get("EVARNESS_CONTRACTS") or os.environ.get("EVARNESS_INVARIANTS")
    ):
        from pytest_evarness.contract.library import problem_of_variable

        problem = problem_of_variable(os.environ, config.rootpath)
        if problem is not None:
            raise pytest.UsageError(f"{problem}; try: correct the path, or unset the variable")


def _near_folder(root: Path, word: str) -> str | None:
    names = sorted(one.name for one in root.iterdir() if one.is_dir())
    near = difflib.get_close_matches(word[:200], names, n=1, cutoff=0.6)
    return f"write {near[0]!r}" if near else None


def exports(config: pytest.Config) -> list[tuple[str, Path]]:
    """Exporter and place of each ``--evarness-export``.

    Raises:
        pytest.UsageError: Another form, or one place for two reports.
    """
    folder = (
        config.invocation_params.dir if is_on_command_line(config, "export") else config.rootpath
    )
    found: list[tuple[str, Path]] = []
    for text in setting(config, "export") or ():
        name, equals, target = text.partition("=")
        if not (name and equals and target):
            raise pytest.UsageError(f"--evarness-export: must be NAME=PATH (got {text!r})")
        place = Path(folder, target)
        if place in [other for _, other in found]:
            raise pytest.UsageError(f"--evarness-export: two reports for one place (got {text!r})")
        found.append((name, place))
    return found


def is_on_command_line(config: pytest.Config, name: str) -> bool:
    """Whether an option was given for this session, rather than standing in the ini file."""
    return config.getoption(_dest(name), None) is not None


def min_coverage(config: pytest.Config) -> Fraction | None:
    """The demanded share in percent, exact; None where none is demanded.

    Raises:
        pytest.UsageError: No number from 0 to 100.
    """
    value = setting(config, "min-coverage")
    if value is None:
        return None
    from fractions import Fraction  # not in a session that demands nothing

    percent = Fraction(value) if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,9})?", value) else None
    if percent is None or percent > 100:
        bare = value.strip().removesuffix("%").strip()
        fix = f"; try: write {bare!r}" if value.strip().endswith("%") and bare else ""
        raise pytest.UsageError(
            f"--evarness-min-coverage: must be a percentage (got {value!r}; 0 to 100{fix})"
        )
    return percent


def _check_approval(text: str) -> None:
    case, colon, rest = text.partition(":")
    node, equals, decision = rest.rpartition("=")
    if not (case and colon and node and equals):
        raise pytest.UsageError(
            f"--evarness-approve: must be CASE:NODE=approve or CASE:NODE=reject (got {text!r})"
        )
    if decision not in ("approve", "reject"):
        raise pytest.UsageError(
            f"--evarness-approve: the decision must be approve or reject (got {decision!r})"
        )


def decisions_for_nothing(config: pytest.Config, plan: Sequence[Mapping[str, Any]]) -> str | None:
    """The first ``--evarness-approve`` whose case no collected scenario has, as a sentence.

    Those of the ini file are standing ones: a session of other files may leave them unused.
    """
    known = {name for case in plan for name in (case["case"], case["base"])}
    for text in config.getoption(_dest("approve"), None) or ():
        case = text.partition(":")[0]
        if case in known:
            continue
        near = difflib.get_close_matches(case[:200], sorted(known), n=1, cutoff=0.6)
        fix = f"; try: write '{near[0]}'" if near else ""
        return f"--evarness-approve: no collected case has this id (got {case!r}{fix})"
    return None


def diagnoses_nothing(config: pytest.Config, plan: Sequence[Mapping[str, Any]]) -> str | None:
    """``--evarness-diagnose`` where no collected case is diagnostic, as a sentence.

    The ini twin is a standing permission: a session of other files may have no use for it.
    """
    if not config.getoption(_dest("diagnose"), None):
        return None
    if any(case["mode"] == "diagnostic" for case in plan):
        return None
    return (
        "--evarness-diagnose: no collected case is of this mode; try: write 'mode: diagnostic' in"
        " the scenario, or add --evarness-mode=diagnostic"
    )


def _check_count(config: pytest.Config) -> None:
    value = setting(config, "min-scenarios")
    if value is not None and not (str(value).isascii() and str(value).isdigit()):
        raise pytest.UsageError(
            f"--evarness-min-scenarios: must be a whole number (got {value!r}; 0 or more)"
        )


def named_on_command_line(config: pytest.Config) -> list[Path]:
    """Paths that the user gave, without the parts after ``::``."""
    if config.args_source != pytest.Config.ArgsSource.ARGS:
        return []
    return asked_paths(config)


def asked_paths(config: pytest.Config) -> list[Path]:
    """Where pytest was told to look, by arguments or by itself."""
    here = config.invocation_params.dir
    return [_normal(here / str(argument).split("::", 1)[0]) for argument in config.args]


def yaml_files(config: pytest.Config) -> Iterator[Path]:
    """YAML files below our folders, as far as pytest was told to look there; sorted, by name only.

    Folders that tools make are not skipped: a scenario in ``scenarios/build`` is one as well.
    """
    asked = [path for path in asked_paths(config) if path.is_dir()]
    names = ("evarness_scenarios", "evarness_contracts")
    seen: set[Path] = set()
    for folder in (folder for name in names for folder in folders(config, name)):
        for path in asked:
            if path.is_relative_to(folder):
                start = path
            elif folder.is_relative_to(path):
                start = folder
            else:
                continue
            # A session of somebody who has no such folder imports nothing for it.
            for below in _found_below(config, start).files if start.is_dir() else ():
                if below.name.lower().endswith((".yaml", ".yml")) and below not in seen:
                    seen.add(below)
                    yield below


def is_here(config: pytest.Config) -> bool:
    """Whether there is anything for us to say where pytest was told to look."""
    return next(yaml_files(config), None) is not None or bool(refused_folders(config))


def refused_folders(config: pytest.Config) -> list[tuple[Path, str]]:
    """Folders within ours that nobody looks into, with the mistake; where pytest was to look."""
    asked = asked_paths(config)
    found: dict[Path, str] = {}
    for name in FOLDERS:
        for folder in folders(config, name):
            if not folder.is_dir():
                continue
            if not any(folder.is_relative_to(one) or one.is_relative_to(folder) for one in asked):
                continue
            below = _found_below(config, folder)
            for (path, _), error in zip(below.refused, below.errors(config.rootpath), strict=True):
                if any(path.is_relative_to(one) or one.is_relative_to(path) for one in asked):
                    found[path] = str(error)
    return sorted(found.items())


def is_another_way(config: pytest.Config, path: Path) -> bool:
    """Whether a file, or a link, below our folders is met under another name, or is refused.

    pytest follows every link by itself, also one that leads back up.
    """
    for name in FOLDERS:
        for folder in folders(config, name):
            if not path.is_relative_to(folder):
                continue
            between = [one for one in path.parents if one != folder and one.is_relative_to(folder)]
            if path.is_symlink() and path != folder and path.is_dir():
                files = _found_below(config, folder).files
                return not any(one.is_relative_to(path) for one in files)
            if any(one.is_symlink() for one in between):
                return path not in _found_below(config, folder).files
    return False


def _found_below(config: pytest.Config, folder: Path) -> Found:
    """What lies below a folder, looked for once in a session."""
    from pytest_evarness.source.walk import look_below

    known = config.stash.setdefault(BELOW, {})
    if folder not in known:
        known[folder] = look_below(folder, config.rootpath)
    return known[folder]


def may_be_ours(config: pytest.Config, path: Path) -> bool:
    """Whether a file's name and place let it be a scenario or a library.

    Asked before anything is imported or read: a project full of other YAML files pays for none.
    """
    if path.suffix.lower() not in (".yaml", ".yml"):
        return False
    if ".scenario." in path.name or path in named_on_command_line(config):
        return True
    if path.name in ("tools.yaml", "tools.yml") and path.parent == config.rootpath / "evarness":
        return True  # manifests that are in force everywhere, and that may hold tests
    names = ("evarness_scenarios", "evarness_contracts")
    return any(path.is_relative_to(folder) for name in names for folder in folders(config, name))


def is_scenario_session(config: pytest.Config) -> bool:
    """True when a scenarios folder exists or a scenario file was named; looks at names only."""
    if any(folder.is_dir() for folder in folders(config, "evarness_scenarios")):
        return True
    return any(path.suffix in (".yaml", ".yml") for path in named_on_command_line(config))


def _is_asked_for(config: pytest.Config) -> bool:
    """The user spoke of this plugin: by ``-p evarness``, a bundle path or a key."""
    if "evarness" in (config.getoption("plugins", None) or []):
        return True
    return any(setting(config, name) is not None for name in ("bundle", "key"))


def is_relevant(config: pytest.Config) -> bool:
    """Whether a header line tells the reader something."""
    return _is_asked_for(config) or is_scenario_session(config)


def key_words(config: pytest.Config) -> str:
    """Which key will sign, without its path."""
    if setting(config, "unsigned"):
        return "unsigned"
    if setting(config, "key") is not None:
        return "key given"
    if os.environ.get("EVARNESS_SIGNING_KEY"):
        return "key from $EVARNESS_SIGNING_KEY"
    return "local key"


def min_scenarios(config: pytest.Config) -> int:
    """How many scenario files must be found."""
    value = setting(config, "min-scenarios")
    if value is not None:
        return int(value)
    if not _is_asked_for(config):
        return 0
    named = named_on_command_line(config)
    if not named:
        return 1
    inside = folders(config, "evarness_scenarios")
    return int(any(path.is_relative_to(folder) for path in named for folder in inside))


def found(config: pytest.Config) -> int:
    """Scenario files found so far, before deselection."""
    counts: list[int] = config.stash.get(FOUND, [])
    return sum(counts)


def count_found(config: pytest.Config, number: int = 1) -> None:
    """Count scenario files that were looked into."""
    config.stash.setdefault(FOUND, []).append(number)


def check_min_scenarios(session: pytest.Session) -> None:
    """Exit 1 with one line where fewer scenario files were found than asked for."""
    config = session.config
    if hasattr(config, "workerinput"):
        return
    least = min_scenarios(config)
    if found(config) >= least:
        return
    searched = ", ".join(config.getini("evarness_scenarios")) or "none"
    _fail(
        session,
        f"evarness: {found(config)} scenario files found, at least {least} needed"
        f" (folders searched: {searched})",
    )


def check_something_ran(session: pytest.Session) -> None:
    """Exit 1 with one line where coverage is demanded by an option and there was no scenario."""
    config = session.config
    if not min_coverage(config) or not is_on_command_line(config, "min-coverage"):
        return
    if hasattr(config, "workerinput") or config.getoption("collectonly", False) or found(config):
        return
    from pytest_evarness.plugin.coverage import nothing_problem

    problem = nothing_problem(config)
    assert problem is not None, "coverage is demanded"
    _fail(session, problem)


def must_fail(config: pytest.Config) -> None:
    """Whatever else ends the session green, it does not."""
    config.stash[RED] = True


def final_code(
    config: pytest.Config, code: int | pytest.ExitCode | None
) -> int | pytest.ExitCode | None:
    """The exit code of the process: another one than 0 where something of ours failed.

    Interruptions, internal errors and wrong use keep their own.
    """
    green = (None, pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    if code not in green or not config.stash.get(RED, False):
        return code
    sys.stderr.write(
        "evarness: the session failed, and something set its exit status to"
        f" {int(code or 0)}; it is {int(pytest.ExitCode.TESTS_FAILED)}\n"
    )
    return pytest.ExitCode.TESTS_FAILED


def end(config: pytest.Config, code: int | pytest.ExitCode | None, *, is_inner: bool) -> None:
    """The session ended with ``code``; where scenarios turned up, its process is given back."""
    ending = sys.modules.get("pytest_evarness.plugin.ending")
    if ending is not None:
        ending.end(config, code, is_inner=is_inner)


def _fail(session: pytest.Session, text: str) -> None:
    must_fail(session.config)
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        terminal.ensure_newline()
        terminal.write_line(text, red=True)
    if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
