"""Command-line options, variables and the configuration file, all made from the fields of the settings.

Every setting has a `BLAMESPAN_*` variable and a name in the file; those that an operator types have an option, too.
click's order of sources is ours: an option, then its variable, then the file, then the default.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import click
from click.core import ParameterSource

from blamespan.cli import SuggestingGroup
from blamespan.errors import ConfigError
from blamespan.strict_tables import read_toml
from blamespan_collector.receiving.tokens import read_tokens
from blamespan_collector.settings import DEFAULT_PAGE, CollectorSettings, Limits, ListenAddress

_Command = Callable[..., None]
_PATHS = frozenset(
    (
        "journal",
        "store",
        "tls_cert",
        "tls_key",
        "tls_client_ca",
        "token_file",
        "forward_ca",
        "forward_cert",
        "forward_key",
    )
)
_SHOWN_DEFAULTS = {
    "journal": "a folder of this user's",
    "store": "in the journal's folder",
    "alerts_link": "the page's address",
}
_STORE = Path("store") / "runs.db"
"""The store's place in the journal's folder."""
_FOLDER = ("journal", "grpc", "http")
"""What says where the journal is: without the first, the two others."""
_ADDRESSES = frozenset(("grpc", "http", "monitor", "page"))
_OPTIONS = frozenset(
    ("grpc", "http", "forward", "headers", "out", "page", "store", "tracer", "journal", "log_level"),
)
"""The settings that have an option; the others are set in the file or by their variable."""

_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Where spans come in": ("grpc", "http", "http_hosts", "tls_cert", "tls_key", "tls_client_ca", "token_file"),
    "Where they go": ("forward", "headers", "forward_ca", "forward_cert", "forward_key", "out"),
    "Where verdicts go beside them": ("evaluations", "phoenix", "langfuse"),
    "Runs to look at": ("page", "page_hosts", "jaeger_ui", "store", "store_max_age_s", "store_max_bytes"),
    "Incidents and alerts": ("incident_after", "incident_quiet_s", "alerts_to", "alerts_link"),
    "Verdicts": ("tracer", "tracer_processes", "deadline_s"),
    "When a trace is complete, and how much is held": ("quiet_s", "idle_s", "max_age_s", "max_traces", "max_bytes"),
    "The journal": ("journal", "journal_sync", "max_journal_bytes", "keep_delivered_s", "drain_s"),
    "Limits on requests": ("max_request_bytes", "max_request_spans", "max_span_attributes"),
    "Watching the collector": ("monitor", "log_format", "log_level"),
}
"""The settings by what they are about, as `--help-settings` lists them."""


class SettingsHelp(SuggestingGroup):
    """A command whose help ends with how to see the settings that have no option."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write where the other settings are."""
        with formatter.section("Settings"):
            formatter.write_text(
                "Every option is also a variable and a key of the file: BLAMESPAN_LOG_LEVEL, log-level. Settings "
                "without an option, such as TLS, limits and times, are listed by --help-settings. An option wins over "
                "its variable, that over the file, that over the default."
            )


class _Setting(click.Option):
    """A setting; what is wrong with its value is said of where the value comes from."""

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """Check the value; a wrong one of a variable names the variable."""
        try:
            return super().process_value(ctx, value)
        except click.BadParameter as error:
            if ctx.get_parameter_source(self.name or "") is ParameterSource.ENVIRONMENT:
                error.param_hint = f"variable {self.envvar}"
            raise


class _SettingWithoutOption(_Setting):
    """A setting without an option: its value comes from its variable, the file or the default."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Add nothing: the command line does not know it."""


def list_settings() -> Iterator[tuple[str, list[tuple[str, str, str, str]]]]:
    """Yield each section of the settings with its rows: name in the file, variable, default and meaning."""
    settings = {setting.name: setting for setting in _settings()}
    for title, names in _SECTIONS.items():
        rows = []
        for name in names:
            setting = settings[name]
            default = _SHOWN_DEFAULTS.get(name, _default(setting))
            value = "none" if default in (None, ()) else str(default)
            meaning = f"{setting.metadata['metavar']}: {setting.metadata['help']}"
            rows.append((_name(setting), _variable(setting), value, meaning))
        yield title, rows


def _print_settings(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if not is_asked or context.resilient_parsing:
        return
    formatter = context.make_formatter()
    formatter.write_text("Every setting: its key in the file and its variable, its default and its meaning.")
    for title, rows in list_settings():
        with formatter.section(title):
            formatter.write_dl(
                [(name, f"{variable}. {meaning}  [default: {default}]") for name, variable, default, meaning in rows]
            )
    click.echo(formatter.getvalue().rstrip())
    context.exit()


class _Several(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 alone
    """One of several values; a variable parts them by commas or spaces."""

    name = "text"

    def split_envvar_value(self, rv: str) -> list[str]:
        return rv.replace(",", " ").split()


class _Secret(_Several):
    """One of several URLs, in which a comma may stand."""

    def split_envvar_value(self, rv: str) -> list[str]:
        return rv.split()


class _Header(_Several):
    """`NAME=VALUE`; a variable holds several as OpenTelemetry's do: `name=value,name=value`, percent-encoded."""

    def split_envvar_value(self, rv: str) -> list[str]:
        return [unquote(part.strip()) for part in rv.split(",") if part.strip()]


def options(command: _Command) -> _Command:
    """Add to *command* every setting, most without an option, `--config` and `--help-settings`."""
    for setting in reversed(list(_settings())):
        command = _option(setting, has_option=setting.name in _OPTIONS)(command)
    command = click.option(
        "--help-settings",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_settings,
        help="List every setting with its variable, and exit.",
    )(command)
    return _config_option(command)


def _config_option(command: _Command) -> _Command:
    return click.option(
        "--config",
        envvar="BLAMESPAN_CONFIG",
        metavar="FILE",
        type=click.Path(),
        is_eager=True,
        expose_value=False,
        callback=_read_file,
        help='TOML file of settings: `log-level = "info"`.',
    )(command)


def folder_options(command: _Command) -> _Command:
    """Add to *command* what says which collector's folder is meant: `--config`, and `--journal` as an option.

    The others, by which a folder is named where none is given, come from variables and the file.
    """
    for setting in reversed(list(_settings())):
        if setting.name in _FOLDER:
            command = _option(setting, has_option=setting.name == "journal")(command)
    return _config_option(command)


def folder_of(chosen: Mapping[str, Any]) -> Path:
    """Return the journal's folder by what `folder_options` were given.

    Raises:
        ConfigError: if one is wrong.
    """
    if chosen["journal"]:
        return Path(chosen["journal"]).expanduser()
    return _default_journal(*(ListenAddress.parse(chosen[name] or "none") for name in ("grpc", "http")))


def settings_of(chosen: Mapping[str, Any]) -> CollectorSettings:
    """Make the settings of what the options were given.

    Raises:
        ConfigError: if one is wrong.
    """
    values: dict[str, Any] = dict(chosen)
    limits = Limits(**{setting.name: values.pop(setting.name) for setting in fields(Limits)})
    for name in _ADDRESSES:
        values[name] = ListenAddress.parse(values[name] or "none")
    for name in _PATHS:
        values[name] = Path(values[name]).expanduser() if values[name] else None
    values["headers"] = tuple(map(_header, values["headers"]))
    values["journal"] = values["journal"] or _default_journal(values["grpc"], values["http"])
    values["store"] = _store(values["store"], values["journal"])
    if values["store"] is None and values["page"] == DEFAULT_PAGE:
        values["page"] = None  # there is nothing to show
    values["tokens"] = read_tokens(values["token_file"], os.environ.get("BLAMESPAN_TOKEN"))
    return CollectorSettings(limits=limits, **values)


def local_store() -> Path:
    """Return where this user's collector keeps its store: by its variables, else where it does by default."""
    store, journal = (os.environ.get(f"BLAMESPAN_{name}", "").strip() for name in ("STORE", "JOURNAL"))
    if store and store.lower() != "none":
        return Path(store).expanduser()
    grpc, http = (ListenAddress.parse(_default(setting)) for setting in _settings() if setting.name in ("grpc", "http"))
    return (Path(journal).expanduser() if journal else _default_journal(grpc, http)) / _STORE


def shown(settings: CollectorSettings) -> Iterator[tuple[str, str]]:
    """Return every setting's name in the file and its value, without secrets."""
    for setting in _settings():
        owner = settings.limits if setting.name in {limit.name for limit in fields(Limits)} else settings
        value = getattr(owner, setting.name)
        if setting.name == "headers":
            value = tuple(f"{name}=***" for name, _ in value)
        if setting.name == "alerts_to":
            value = tuple(f"{url.partition('://')[0][:30]}://***" for url in value)
        if isinstance(value, tuple):
            value = ", ".join(value)
        yield _name(setting), "none" if value is None or value == "" else str(value)
    yield "tokens", f"{len(settings.tokens)} known" if settings.tokens else "none"


def _settings() -> Iterator[Field[Any]]:
    for setting in fields(CollectorSettings):
        if setting.name == "limits":
            yield from fields(Limits)
        elif setting.metadata:
            yield setting


def _name(setting: Field[Any]) -> str:
    name: str = setting.metadata.get("name", setting.name.replace("_", "-"))
    return name


def _variable(setting: Field[Any]) -> str:
    return f"BLAMESPAN_{_name(setting).replace('-', '_').upper()}"


def _default(setting: Field[Any]) -> Any:
    if setting.name in {limit.name for limit in fields(Limits)}:
        defaults = next(setting for setting in fields(CollectorSettings) if setting.name == "limits").default_factory
        assert defaults is not MISSING
        return getattr(defaults(), setting.name)
    default = setting.metadata.get("default", None if setting.default is MISSING else setting.default)
    return str(default) if isinstance(default, ListenAddress) else default


def _option(setting: Field[Any], *, has_option: bool) -> Callable[[_Command], _Command]:
    default = _default(setting)
    is_several = isinstance(default, tuple)
    kinds = {"headers": _Header(), "alerts_to": _Secret()}
    several = kinds.get(setting.name, _Several()) if is_several else None
    shown_default: bool | str = _SHOWN_DEFAULTS.get(setting.name, default not in (None, ()))
    return click.option(
        f"--{_name(setting)}",
        setting.name,
        cls=_Setting if has_option else _SettingWithoutOption,
        hidden=not has_option,
        envvar=_variable(setting),
        show_default=shown_default,
        default=default,
        multiple=is_several,
        type=several,
        metavar=setting.metadata["metavar"],
        help=setting.metadata["help"] + (" Repeatable." if is_several else ""),
    )


def _read_file(context: click.Context, _: click.Parameter, path: str | None) -> None:
    if path is None:
        return
    document = read_toml(Path(path).expanduser(), "settings", "blamespan collect --help-settings lists them")
    settings = {_name(setting): setting for setting in _settings()}
    values: dict[str, Any] = {}
    for key, value in _flatten(document, settings):
        setting = settings.get(key.replace("_", "-"))
        if setting is None:
            near = difflib.get_close_matches(key.replace("_", "-"), settings, n=1, cutoff=0.0)
            raise ConfigError(f"expected a setting, got {key!r} in {path!r}. Did you mean {near[0]!r}?")
        values[setting.name] = _of_file(setting, key, value)
    context.default_map = {**(context.default_map or {}), **values}


def _flatten(document: Mapping[str, Any], known: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield the settings of a file; `to` in the table `[alerts]` is `alerts-to`."""
    for key, value in document.items():
        if isinstance(value, dict) and any(name.startswith(f"{key}-") for name in known):
            yield from ((f"{key}-{name}", item) for name, item in value.items())
        else:
            yield key, value


def _of_file(setting: Field[Any], key: str, value: Any) -> Any:
    default = _default(setting)
    if isinstance(default, tuple):
        values = value if isinstance(value, list) else [value]
        if all(isinstance(item, str) for item in values):
            return values
        shown_value = "something else" if setting.metadata.get("is_secret") else repr(value)
        raise ConfigError(f"{key} must be a list of strings, got {shown_value}")
    wanted = (int, float) if isinstance(default, float) else int if isinstance(default, int) else str
    if not isinstance(value, wanted) or isinstance(value, bool):
        what = "a string" if wanted is str else "a number" if isinstance(default, float) else "a whole number"
        raise ConfigError(f"{key} must be {what}, got {value!r}")
    return value


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"expected a header as NAME=VALUE, got {name!r}. Set it like --header a=b")
    return name.strip(), value.strip()


def _store(store: Path | None, journal: Path) -> Path | None:
    """Put the store into the journal's folder, where we may surely write, unless told otherwise."""
    if store is None:
        return journal / _STORE
    return None if str(store).lower() == "none" else store


def _default_journal(grpc: ListenAddress | None, http: ListenAddress | None) -> Path:
    """Return a folder for each pair of ports: two collectors of one user need not know of each other."""
    from platformdirs import user_state_path

    ports = "-".join(str(address.port) for address in (grpc, http) if address)
    return user_state_path("blamespan", appauthor=False) / f"journal-{ports}"
