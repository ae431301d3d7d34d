"""Tables of docs/session.md and docs/summary.md, generated from the structs of these files.

``python -m tools.reference`` writes them into the pages; a test compares. The meaning of a key is
the ``#:`` comment of its field, which editors also show by `hilrt schema`. It begins with the unit
in brackets, if there is one, and refers to pages as ``docs/PAGE.md#SECTION``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from hilrt.bench.bench_options import BenchInput, BenchOptions, Enable, SafeProfile
from hilrt.can.bus_faults import BusFaults, BusOffRecovery
from hilrt.can.protection import MessageOptions, Protection
from hilrt.config import session_tables
from hilrt.config import structs as config
from hilrt.config.schema import field_comments
from hilrt.expect.outcome import Coordinate, ResultEntry
from hilrt.fmu.fmu_options import FmuOptions
from hilrt.hosting.group import GroupOptions
from hilrt.session import summary_layout as layout
from hilrt_adapters.inprocess import InProcessOptions
from hilrt_adapters.replay import ReplayOptions
from hilrt_adapters.sequence_link import SequenceOptions

DOCS = Path(__file__).parent.parent / "docs"
PAGE, SUMMARY_PAGE = DOCS / "session.md", DOCS / "summary.md"
HEAD = "| Key | Type | Default | Unit | Meaning |\n|---|---|---|---|---|\n"

#: Heading of the page to the struct whose keys are in its table.
SECTIONS: dict[str, type[msgspec.Struct]] = {
    "`[session]`": config.SessionTable,
    "`[master]`": config.MasterTable,
    "`[master.extrapolation]`": config.Extrapolation,
    "`[master.step_control]`": config.StepControl,
    "`[master.order_control]`": config.OrderControl,
    "`[master.pacing]`": config.Pacing,
    "`[subsystems.NAME]`": config.SubsystemOptions,
    "`[subsystems.NAME.late]`": config.Late,
    "`[subsystems.NAME.inputs.PORT]`": config.InputOptions,
    "`[subsystems.NAME.jacobian]`": config.JacobianOptions,
    '`adapter = "inprocess"`': InProcessOptions,
    "`[groups.NAME]`": GroupOptions,
    '`adapter = "sequence"`': SequenceOptions,
    '`adapter = "fmu"`': FmuOptions,
    '`adapter = "can"`': BenchOptions,
    '`[subsystems.NAME.inputs.PORT]` with `adapter = "can"`': BenchInput,
    "`[subsystems.NAME.enable]`": Enable,
    "`[subsystems.NAME.safe_profile]`": SafeProfile,
    "`[subsystems.NAME.bus_faults]`": BusFaults,
    "`[subsystems.NAME.bus_off_recovery]`": BusOffRecovery,
    "`[subsystems.NAME.messages.MESSAGE]`": MessageOptions,
    "`[subsystems.NAME.messages.MESSAGE.protection]`": Protection,
    '`adapter = "replay"`': ReplayOptions,
    "`[[connections]]`": config.Connection,
    "`[[bonds]]`": config.Bond,
    "`[bonds.correction]`": config.Correction,
    "`[[stimuli]]`": session_tables.Stimulus,
    "`[[stimuli.segments]]`": session_tables.StimulusSegment,
    "`[[faults]]`": session_tables.FaultTable,
    "`[[calculated]]`": config.Calculated,
    "`[[lookup_tables]]`": config.LookupEntry,
    "`[[alarms]]`": config.Alarm,
    "`[[expect]]`": config.Expect,
    "`[[start]]`": config.Step,
    "`[[match]]`": config.Match,
    "`[reliability]`": config.Reliability,
    "`[monitor]`": session_tables.MonitorTable,
    "`[monitor.adjust.NAME]`": session_tables.Adjustable,
    "`[record]`": session_tables.RecordTable,
    "`[[record.trigger]]`": session_tables.TriggerTable,
}


def _anchor(heading: str) -> str:
    """Return the anchor of a heading, as used by hosting sites."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


_ANCHORS = {struct: _anchor(heading) for heading, struct in SECTIONS.items()}


def type_words(hint: Any) -> str:
    """Return a type with its bounds, in words for authors of session files."""
    bounds = ""
    if get_origin(hint) is Annotated:
        hint, *metas = get_args(hint)
        meta = metas[0]
        if meta.ge is not None and meta.le is not None and hint is int:
            return f"integer {meta.ge} … {meta.le}"
        signs = ((">", meta.gt), ("≥", meta.ge), ("≤", meta.le))
        bounds = ", ".join(f"{sign} {value:g}" for sign, value in signs if value is not None)
        bounds = f" {bounds}" if bounds else ""
    simple = {str: "string", int: "integer", float: "number", bool: "boolean"}
    if hint in simple:
        return simple[hint] + bounds
    arguments = get_args(hint)
    if get_origin(hint) is Literal:
        return ", ".join(f"`{json.dumps(choice)}`" for choice in arguments)
    if get_origin(hint) is list:
        same = arguments[0] is Any
        return "list" if same else f"list of {_plural(type_words(arguments[0]))}"
    if get_origin(hint) is dict:
        words = "" if arguments[1] is Any else type_words(arguments[1])
        return f"table of {_plural(words)}" if words else "table"
    if get_origin(hint) in (Union, type(int | str)):
        return " or ".join(type_words(part) for part in arguments if part is not type(None))
    return f"[table](#{_ANCHORS[hint]})"


def _plural(words: str) -> str:
    """Return the plural of a type's words; listed values have none."""
    return re.sub(r"(^| or )(\[?)(\w+)", r"\1\2\3s", words)


def default_words(field: msgspec.structs.FieldInfo) -> str:
    """Return the default of a key, as written in a session file."""
    if field.default is not msgspec.NODEFAULT:
        value = field.default
    elif field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
        value = {} if isinstance(value, msgspec.Struct) else value
    else:
        return "required"
    if value is None:
        return "–"
    return f"`{value!r}`" if isinstance(value, float) else f"`{json.dumps(value)}`"


def key_table(struct: type[msgspec.Struct]) -> str:
    """Return the table of the keys that a struct adds to its base."""
    comments = field_comments(struct)
    rows = []
    for field in msgspec.structs.fields(struct):
        if field.name not in struct.__annotations__:
            continue
        unit, meaning = _unit_and_meaning(comments[field.name])
        cells = (type_words(field.type), default_words(field), unit, meaning)
        rows.append(f"| `{field.encode_name}` | " + " | ".join(cells) + " |\n")
    return HEAD + "".join(rows).replace("|  |", "| |")


def _unit_and_meaning(comment: str) -> tuple[str, str]:
    """Return unit and meaning from a field's comment, with links to its pages."""
    found = re.fullmatch(r"(?:\[([^]]+)\] )?(.+)", comment)
    assert found is not None, "every key needs a comment"
    unit, meaning = found.groups()
    return unit or "", _with_links(meaning)


def _with_links(text: str) -> str:
    """Return a comment with links to the pages that it names."""
    return re.sub(r"\bdocs/([\w/]+)\.md(#[\w-]+)?", _link, text)


def _link(match: re.Match[str]) -> str:
    """Return the Markdown link to a page in a comment."""
    return f"[{match[1]}]({match[1]}.md{match[2] or ''})"


def filled(page: str) -> str:
    """Return the page with the current tables under its headings."""
    for heading, struct in SECTIONS.items():
        start = page.index(f"### {heading}\n")
        begin = page.index(HEAD, start)
        end = re.compile(r"^(?!\|)", re.M).search(page, begin)
        assert end is not None
        page = page[:begin] + key_table(struct) + page[end.start() :]
    return page


# -- docs/summary.md -----------------------------------------------------------------------------

_SUMMARY_HEAD = "| Key | Type | Unit | Meaning |\n|---|---|---|---|\n"
_SUMMARY_SECTIONS: dict[str, type[msgspec.Struct]] = {
    "Of every session": layout.SummaryWithoutSteps,
    "Of a session that has made steps": layout.SummaryOfSteps,
    "`step_size_s`": layout.StepSizes,
    "`order`": layout.OrdersInForce,
    "`repeated`": layout.RepeatedFigures,
    "`ports`": layout.PortFigures,
    "Defects and disturbances": layout.DefectFigures,
    "`spread`": layout.SpreadFigures,
    "`bonds`": layout.BondFigures,
    "`advice`": layout.ChangeFigures,
    "`estimated_error`": layout.ErrorFigures,
    "`flags`": layout.FlagFigures,
    "Quantiles": layout.TickTimes,
    "`timeline_us`": layout.TickParts,
    "`slowest_ticks`": layout.SlowTickFigures,
    "`lateness_histogram`": layout.LatenessHistogram,
    "`identification`": layout.LearningTurns,
    "`peers`": layout.PeerFigures,
    "`recorder`": layout.RecorderFigures,
    "`lost_events`": layout.UnrecordedEvent,
    "`alarms`": layout.AlarmFigures,
    "`results`": ResultEntry,
    "`at`": Coordinate,
}
_MARK = "<!-- tables of python -m tools.reference -->\n"


def json_words(hint: Any) -> str:
    """Return the type of a key in words for JSON."""
    simple = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
    if hint in simple:
        return simple[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return ", ".join(f"`{json.dumps(choice)}`" for choice in arguments)
    if origin is list:
        return f"list of {_plural(json_words(arguments[0]))}"
    if origin is dict:
        inside = "" if arguments[1] is Any else f" of {_plural(json_words(arguments[1]))}"
        return f"object{inside}"
    if origin is not None:
        return " or ".join(map(json_words, arguments))
    heading = next(heading for heading, struct in _SUMMARY_SECTIONS.items() if struct is hint)
    return f"[object](#{_anchor(heading)})"


def summary_tables() -> str:
    """Return the tables of all keys of `summary.json`."""
    parts = []
    for heading, struct in _SUMMARY_SECTIONS.items():
        comments, rows = field_comments(struct), ""
        for field in msgspec.structs.fields(struct):
            if field.name not in struct.__annotations__:
                continue
            unit, meaning = _unit_and_meaning(comments[field.name])
            rows += f"| `{field.name}` | {json_words(field.type)} | {unit} | {meaning} |\n"
        rows = rows.replace("|  |", "| |")
        about = _with_links((struct.__doc__ or "").partition("\n")[0])
        parts.append(f"\n## {heading}\n\n{about}\n\n{_SUMMARY_HEAD}{rows}")
    return "".join(parts)


def filled_summary(page: str) -> str:
    """Return the page of `summary.json` with the current tables."""
    return page.partition(_MARK)[0] + _MARK + summary_tables()


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
    SUMMARY_PAGE.write_text(filled_summary(SUMMARY_PAGE.read_text("utf-8")), "utf-8")
