"""What a run failed by where no agent is to blame: a task that contradicts itself or lacks what it needs, a dead tool.

Each is found by words that are quoted, and rather not at all than wrongly. In all of them the run's last word is that
it could not be done: who hides such a failure is to blame for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, islice
from typing import Final

from blamespan.attribution import Cause, Contradicted
from blamespan.trace import Step
from blamespan_tracer.checks.check import ExaminedRun
from blamespan_tracer.ledger.values import Value, find_values
from blamespan_tracer.tokens import SENTENCE_END, split_sentences

_MAX_CHARS: Final = 20_000
_MAX_QUOTE: Final = 200
_LEAST_CALLS: Final = 2
"""Of a tool that fails: who does not try again may be to blame for that."""
_MOST_VALUES: Final = 100
_MOST_FILES: Final = 20
"""Files that a task names: of more, nobody says which is missing."""

_ENVIRONMENT: Final = re.compile(
    r"(?i)\btime[sd]?[- ]?out\b|\b(?:http|status|code|error)\W{0,3}(?:status |code )?\W{0,3}(?:429|5\d\d)\b|"
    r"\b50[0-4]\b|\b(?:service|server|host|site|database|back ?end|gateway|api)\b[^.\n]{0,30}"
    r"\b(?:unavailable|down|unreachable|overloaded|not respond\w*)\b|"
    r"\bconnection (?:was )?(?:refused|reset|aborted|closed|failed|error)\b|\bnetwork is unreachable\b|"
    r"\btemporar(?:y|ily) (?:failure|unavailable)\b|\bbad gateway\b|\binternal (?:server )?error\b|"
    r"\btoo many requests\b|\brate.?limit|\bECONN\w+|\bETIMEDOUT\b|\bfor maintenance\b"
)
"""Failures of a tool that no argument mends."""
_FAILS: Final = re.compile(
    r"(?i)\W{0,6}(?:(?:tool |request |call )?(?:error|fail(?:ed|ure)|exception|time[sd]?[- ]?out)\b|traceback\b|"
    r"connection (?:refused|reset|aborted|closed|error)|service unavailable|(?:http\S{0,8} )?(?:429|5\d\d)\b|"
    r"[\w.]{0,60}(?:Error|Exception)\b|status\W{1,4}(?:error|5\d\d))"
)
"""How an answer begins that is a failure, where its span does not say so: a page of logs is full of others' errors."""

_GIVES_UP: Final = re.compile(
    r"(?i)\b(?:could ?n[o']t|can ?not|can['\u2019]t|unable to|was(?:n't| not) able|not possible|impossible|failed to|"
    r"(?:is|are|was|were|remains?|still) (?:currently |still )?(?:unavailable|down|unreachable|missing|not available)|"
    r"try again later|no (?:answer|result|data)\b|did(?:n't| not) (?:answer|respond)|"
    r"please (?:provide|attach|upload|share|send|clarify|confirm|tell)|which (?:of|one|value|is (?:right|correct))|"
    r"(?:could|would|can) you (?:please )?(?:provide|attach|upload|share|send|clarify|confirm|tell))\b"
)

_FILE: Final = re.compile(
    r"(?<![\w/.-])[\w-]{1,60}\.(?:csv|xlsx?|pdf|docx?|txt|json|xml|png|jpe?g|md|zip|pptx?|html?|parquet|mp3|wav|mp4|py)\b",
    re.IGNORECASE,
)
_MAKES: Final = re.compile(
    r"(?i)\b(?:creat|writ|sav|generat|produc|output|export|stor|mak|build|implement)\w{0,6}\b[^.!?\n]{0,40}\Z"
)
"""A task that has a file made does not give it."""
_ATTACHED: Final = re.compile(r"(?i)\b(?:attached|attachments?|enclosed)\b")
_BELOW: Final = re.compile(
    r"(?i)\b(?:(?:table|list|text|document|letter|data|code|picture|figures?|passage) below|"
    r"following (?:table|list|text|document|letter|data|code|passage))\b[^\n]{0,40}\Z"
)
_NAMES_ATTACHED: Final = re.compile(
    r"(?i)\b(?:attach\w*|enclosed|files?|documents?|tables?|pictures?|images?|texts?|lists?|data|code|passage|letter)\b"
)
_LACKS: Final = re.compile(
    r"(?i)\b(?:no|not|never|nothing|without|missing|lacks?|n[o']t|cannot|unable to)\b[^.!?\n]{0,60}"
    r"\b(?:attach\w*|provided|included|given|shared|found|upload\w*|received|available|exists?|access|file|see|here)\b|"
    r"\b(?:is|are) missing\b|\b(?:provide|attach|upload|share|send)\b"
)

_VALUE_OF: Final = re.compile(
    r"(?i)\b(?:the|our|your|my|its|their)\s+(?P<thing>(?:[a-z][\w'\u2019-]*\s+){0,4}?[a-z][\w'\u2019-]*)\s*"
    r"\b(?:is|are|of|to be|must be|should be|has to be|shall be)\s+"
    r"(?:about |exactly |only |at most |up to |no more than |set to |limited to )?[$\u20ac\u00a3]?\s?\Z"
)
"""What a value is of: the words between an article and the value."""
_BEFORE: Final = re.compile(
    r"(?i)(?:(?:please|note|remember|know|keep|stay|within|that|and|but|also|so|we|you|must|mind|attention|important|it|"
    r"is|to|use|respect|observe|mind)\b\W*)*\Z"
)
"""What may stand before these words in their clause without telling them apart from others."""
_CLAUSE: Final = re.compile(r"[.!?;:](?=\s)|\n|, (?:and|but|so|which)\b|\band\b|\bbut\b")
_QUALIFIES: Final = re.compile(
    r"(?i)\b(?:in|on|for|at|during|before|after|until|from|if|when|then|later|now|new|old|former|was|per|each|every|by|"
    r"instead|first|second|next|last|other|another|while|without|unless|than|with)\b|\d|(?-i:(?<!^)\b[A-Z]\w)"
)
"""What may tell two things of one name apart."""
_CHANGES: Final = re.compile(
    r"(?i)\b(?:chang|updat|correct|rais|increas|reduc|decreas|rose|fell|revis|replac|instead|originally|previously|"
    r"options?\b|either\b|alternatives?\b|choice)"
)


def find_cause(run: ExaminedRun) -> Cause | None:
    """Find what a run failed by beside its agents; None where nothing shows it.

    - The tool: it answered the run's last calls of it with failures of its own (a timeout, a 5xx, a refused connection)
      and was called again at least once; none of these calls went through, and the last word gives up.
    - The task: it gives two values to one thing, and the last word gives up or names both.
    - The task: it refers to an attachment, or a file by name, that nobody gave, and the last word says that it lacks.
    """
    last = run.decisions[-1] if run.decisions else None
    if last is None or last.kind not in ("message", "termination"):
        return None
    text = last.content[:_MAX_CHARS]
    gives_up = _GIVES_UP.search(text) is not None
    pair = next(contradicting_values(run.trace.task[:_MAX_CHARS]), None)
    if pair is not None and (gives_up or all(_states(text, value) for value in pair)):
        return _contradiction(run.trace.task, *pair)
    if not gives_up:
        return None
    return _failed_tool(run) or _missing_input(run, last)


def contradicting_values(task: str) -> Iterator[tuple[Value, Value]]:
    """Yield pairs of values that a task gives to one thing: the same words say what each is of, and no others do."""
    if _CHANGES.search(task):
        return
    things: dict[tuple[str, str, str], list[Value]] = {}
    for value in list(find_values(task))[:_MOST_VALUES]:
        if value.form == "number" and (thing := _thing_of(task, value)):
            things.setdefault((thing, value.form, value.unit), []).append(value)
    for values in things.values():
        yield from (pair for pair in combinations(values[:4], 2) if not pair[0].equals(pair[1]))


def _thing_of(task: str, value: Value) -> str:
    """Return what a value is of, in small letters; empty where that is not sure."""
    cuts = [match.end() for match in _CLAUSE.finditer(task, 0, value.start)]
    clause = task[max(*cuts, 0, value.start - _MAX_QUOTE) : value.start]
    match = _VALUE_OF.search(clause)
    if match is None or _BEFORE.match(clause[: match.start()].strip()) is None:
        return ""
    rest = task[value.stop :]
    end = _CLAUSE.search(rest)
    after = rest[: end.start() if end else len(rest)].strip(" .!?%$\u20ac\u00a3")
    if len(after.split()) > 1 or _QUALIFIES.search(after):
        return ""
    return " ".join(match["thing"].lower().split())


def _states(text: str, value: Value) -> bool:
    return any(value.equals(other) for other in find_values(text) if other.form == value.form)


def _contradiction(task: str, one: Value, other: Value) -> Cause:
    first, second = _sentence(task, one.start), _sentence(task, other.start)
    thing = _thing_of(task, one)
    reason = f"the task gives two values for “{thing}”: {one.text} and {other.text}"
    return Cause("task", "the task", None, first, reason, Contradicted(None, second))


def _failed_tool(run: ExaminedRun) -> Cause | None:
    """Find the tool whose last calls all failed by themselves; of several the one that failed last."""
    calls: dict[str, list[tuple[Step, list[Step]]]] = {}
    for step in run.trace.steps:
        if name := run.tool_of(step):
            calls.setdefault(name, []).append((step, run.results_of.get(step.index, [])))
    found: list[tuple[int, Cause]] = []
    for name, made in calls.items():
        failed = 0
        for _, answers in reversed(made):
            if not answers or not all(_fails_by_itself(run, answer) for answer in answers):
                break
            failed += 1
        if failed >= _LEAST_CALLS:
            answer = made[-1][1][-1]
            reason = f"its last {failed} calls failed, and no call went through after them"
            quote = answer.content.strip()[:_MAX_QUOTE] or str(answer.error)
            found.append((answer.index, Cause("tool", name, answer.index, quote, reason)))
    return max(found, key=lambda item: item[0])[1] if found else None


def _fails_by_itself(run: ExaminedRun, answer: Step) -> bool:
    text = answer.content[:400]
    is_error = answer.status == "error" or bool(answer.error) or _FAILS.match(text) is not None
    return is_error and _ENVIRONMENT.search(f"{text} {answer.error or ''}") is not None


def _missing_input(run: ExaminedRun, last: Step) -> Cause | None:
    """Find what the task refers to and nobody gave, where the last word says that it lacks."""
    task = run.trace.task[:_MAX_CHARS]
    sentences = map(str.strip, split_sentences(last.content[:_MAX_CHARS]))
    said = [sentence for sentence in sentences if _LACKS.search(sentence)]
    for match in islice(_FILE.finditer(task), _MOST_FILES):
        quote = next((sentence for sentence in said if match[0].lower() in sentence.lower()), "")
        if not quote or _MAKES.search(task[max(0, match.start() - 60) : match.start()]):
            continue
        if _was_looked_for(run, match[0]) and not _was_given(run, match[0]):
            return _lacks(task, match, last, quote, match[0])
    for pattern in (_ATTACHED, _BELOW):
        referred = pattern.search(task.strip())
        quote = next((sentence for sentence in said if _NAMES_ATTACHED.search(sentence)), "")
        if referred is not None and quote and not _FILE.search(task) and not _was_given(run, ""):
            return _lacks(task, referred, last, quote, referred[0])
    return None


def _was_looked_for(run: ExaminedRun, name: str) -> bool:
    """Check whether a tool was asked for a file; in a run without tools nobody can."""
    calls = [step for step in run.trace.steps if step.kind == "tool_call"]
    has_tools = bool(calls) or any(step.kind == "tool_result" for step in run.trace.steps)
    return not has_tools or any(name.lower() in step.content.lower() for step in calls)


def _was_given(run: ExaminedRun, name: str) -> bool:
    """Check whether anybody gave an input: a user, a tool that answered, or what a step was given beside the run."""
    for step in run.trace.steps:
        is_given = step.kind == "tool_result" and not run.is_error(step)
        is_given = is_given or (not run.trace.can_be_blamed(step) and step.kind == "message")
        told = [step.content] if is_given else []
        others = step.input_text.replace(run.trace.task, "") if step.input_text else ""
        if any(text.strip() and name.lower() in text.lower() for text in (*told, others)):
            return True
    return False


def _lacks(task: str, match: re.Match[str], last: Step, quote: str, what: str) -> Cause:
    asked = _sentence(task.strip(), match.start())
    reason = f"the task refers to “{what}”, which nobody gave"
    return Cause("task", "the task", last.index, quote[:_MAX_QUOTE], reason, Contradicted(None, asked))


def _sentence(text: str, at: int) -> str:
    """Return the sentence or line around a place, at most 200 characters of it."""
    start = max((match.end() for match in SENTENCE_END.finditer(text[:at])), default=0)
    end = SENTENCE_END.search(text[at:])
    return text[start : at + end.start() if end else len(text)].strip()[:_MAX_QUOTE]
