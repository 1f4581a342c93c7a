"""A user's own program, named `module:factory`, made anew to run: a team, graph, workflow, agent or function.

A task is handed to it, and its answer is read, by what each can do.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, get_type_hints
from uuid import uuid4

from blamespan.errors import ConfigError, reason_of

_KEYS = ("task", "question", "query", "input", "prompt")
"""Where a line of tasks that is a JSON object has its task."""
Check = Callable[[str, str], Any]  # (answer, task) -> true or false, or an awaitable of it
"""Tells of an answer whether it is right."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run of a user's program ended.

    Attributes:
        answer: What it said last; empty where it broke.
        succeeded: Whether the answer is right; None where nobody can tell.
        error: What it raised, or what the check did; empty if neither. A run that broke did not succeed.
    """

    answer: str
    succeeded: bool | None
    error: str = ""


@dataclass(frozen=True)
class UserProgram:
    """A program that can be run again and again, each time made anew. `load_program` makes one.

    Attributes:
        name: `module:factory`.
        factory: Makes what is run. It takes no argument and gives an AutoGen team or agent, a compiled LangGraph
            graph, an Agent Framework workflow or agent, or a function of the task, sync or async; it may be async
            itself.
        check: Tells whether an answer is right; None where nobody can.
    """

    name: str
    factory: Callable[[], Any]
    check: Check | None = None
    _made: list[Any] = field(default_factory=list, repr=False, compare=False)

    @property
    def is_sandbox(self) -> bool:
        """Whether the factory says that its tools may run whenever they are called: `make.sandbox = True`."""
        return bool(getattr(self.factory, "sandbox", False))

    def unchecked(self) -> UserProgram:
        """Return the program without its check."""
        return replace(self, check=None)

    def run(self, task: str) -> Ran:
        """Make the program anew and run it once on *task*, in an event loop of its own.

        What the program raises is the outcome of the run; `KeyboardInterrupt` passes. A factory that raises has made no
        program: that is no run, and to run it again would be no cure.

        Raises:
            ConfigError: if the factory raises, or gives what cannot be run.
        """
        try:
            answer = answer_of(self._run(task))
        except ConfigError:
            raise
        except (Exception, SystemExit) as error:  # whatever a program raises
            return Ran("", None if self.check is None else False, f"{type(error).__name__}: {error}")
        return self.judged(answer, task)

    def make(self) -> Any:
        """Call the factory, once more than needed for one that is sync: the first result is for the first run.

        Raises:
            ConfigError: if it raises, or gives what cannot be run.
        """
        if self._made:
            return self._made.pop()
        try:
            program = self.factory()
        except (Exception, SystemExit) as error:
            raise _broken(self.name, error) from error
        return _runnable(program, self.name)

    def give_back(self, program: Any) -> None:
        """Keep a program that was made and not run, for the next run."""
        self._made.append(program)

    def _run(self, task: str) -> Any:
        if not inspect.iscoroutinefunction(self.factory):
            result = start_program(self.make(), task)
            return asyncio.run(_await_result(result)) if inspect.isawaitable(result) else result
        return asyncio.run(self._run_async(task))

    async def _run_async(self, task: str) -> Any:
        """Make it in the loop that it runs in: an async factory may open connections."""
        try:
            program = await self.factory()
        except (Exception, SystemExit) as error:
            raise _broken(self.name, error) from error
        result = start_program(_runnable(program, self.name), task)
        return await result if inspect.isawaitable(result) else result

    def judged(self, answer: str, task: str) -> Ran:
        """Have an answer checked that the program gave."""
        if self.check is None:
            return Ran(answer, None)
        try:
            verdict = self.check(answer, task)
            verdict = asyncio.run(_await_result(verdict)) if inspect.isawaitable(verdict) else verdict
        except Exception as error:  # an answer that the check cannot read is not right
            return Ran(answer, False, f"the check raised {type(error).__name__}: {error}")
        if verdict is None or isinstance(verdict, str):  # "no" would be true
            raise ConfigError(
                f"the check of {self.name!r} must give true or false, got {verdict!r}. Does it return anything else?"
            )
        return Ran(answer, bool(verdict))


def load_program(name: str, check: str | None = None) -> UserProgram:
    """Import the factory that *name* says, and make the program once to see that it can be run.

    The folder that the command is run in comes first where modules are looked for.

    Args:
        name: `module:factory`.
        check: `module:function` of (answer, task) that gives true or false. Without it, the factory's attribute `check`
            is taken, if it has one.

    Raises:
        ConfigError: if either cannot be imported, or what the factory gives cannot be run.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    factory = _import(name, "program")
    if is_runnable(factory) and not inspect.isroutine(factory) and not inspect.isclass(factory):
        raise ConfigError(
            f"{name!r} is a program itself, which keeps what it was told. Name a factory: def make(): return ..."
        )
    _takes_no_argument(factory, name)
    judge = _import(check, "check") if check is not None else getattr(factory, "check", None)
    if judge is not None and not callable(judge):
        raise ConfigError(f"the check of {name!r} must be a function of (answer, task), got {judge!r}. Name one")
    program = UserProgram(name, factory, judge)
    if not inspect.iscoroutinefunction(factory):
        program._made.append(program.make())
    return program


def open_program(factory: Callable[[], Any] | str, check: Check | str | None = None) -> UserProgram:
    """Make a program of a factory, or of its name.

    Args:
        factory: It, or `module:factory`.
        check: Tells whether an answer is right, or its name. Without it, the factory's attribute `check` is taken.

    Raises:
        ConfigError: as `load_program`.
    """
    if isinstance(factory, str):
        named = load_program(factory, check if isinstance(check, str) else None)
        return replace(named, check=check) if callable(check) else named
    if not callable(factory):
        raise ConfigError(
            f"factory must be a function without arguments, or its name, got {factory!r}. "
            'Write it like make, or "my_team.app:make"'
        )
    name = str(getattr(factory, "__qualname__", type(factory).__name__))
    judge = _import(check, "check") if isinstance(check, str) else check
    return UserProgram(name, factory, judge if judge is not None else getattr(factory, "check", None))


def _import(name: str, what: str) -> Any:
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ConfigError(f"expected a {what} as module:function, got {name!r}. Write it like my_team.app:make")
    try:
        import_module(module)
    except (Exception, SystemExit) as error:  # whatever a module does when it is imported
        raise ConfigError(
            f"{what} {name!r}: module {module!r} cannot be imported from {str(Path.cwd())!r} "
            f"({type(error).__name__}: {error}). Run in the folder it lies in, or mend it"
        ) from error
    try:
        return resolve_name(name)
    except (AttributeError, ValueError, ImportError) as error:
        raise ConfigError(f"{what} {name!r}: module {module!r} has no {attribute!r}. Check its name") from error


def _takes_no_argument(factory: Any, name: str) -> None:
    if not callable(factory):
        raise ConfigError(f"{name!r} must be a factory, a function without arguments, got {type(factory).__name__!r}")
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise ConfigError(
            f"the factory {name!r} must take no argument and give what is run ({error}). "
            "Wrap it: def make(): return my_program"
        ) from error
    except ValueError:  # built in: it has no signature to look at
        return


def _broken(name: str, error: BaseException) -> ConfigError:
    said = " ".join(str(error).split())
    return ConfigError(f"the factory {name!r} raised {type(error).__name__}: {said}. Mend it and run again")


def _runnable(program: Any, name: str) -> Any:
    if is_runnable(program):
        return program
    hint = "Compile the graph: .compile()" if hasattr(program, "compile") else "Return one of these"
    raise ConfigError(
        f"the factory {name!r} must give an AutoGen team or agent, a compiled LangGraph graph, an Agent Framework "
        f"workflow or agent, or a function of the task, got {type(program).__name__!r}. {hint}"
    )


async def _await_result(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


_INPUTS = ("task", "question", "query", "input", "request")
"""Where a graph whose state has no `messages` may take its task, the likeliest first."""
_ANSWERS = ("answer", "final_answer", "output", "result", "response", "report")
"""Where such a graph may leave its answer."""


def is_graph(program: Any) -> bool:
    """Return whether *program* is a compiled LangGraph graph."""
    return callable(getattr(program, "ainvoke", None)) and hasattr(program, "get_state") and hasattr(program, "nodes")


def is_team(program: Any) -> bool:
    """Return whether *program* is an AutoGen team or agent, or is run as they are."""
    return "task" in _parameters_of_run(program)


def is_workflow(program: Any) -> bool:
    """Return whether *program* is an Agent Framework workflow or agent, or is run as they are."""
    return bool({"message", "messages"}.intersection(_parameters_of_run(program)[:1]))


def _parameters_of_run(program: Any) -> tuple[str, ...]:
    run = getattr(program, "run", None)
    if not callable(run):
        return ()
    try:
        return tuple(inspect.signature(run).parameters)
    except (TypeError, ValueError):
        return ()


def is_runnable(program: Any) -> bool:
    """Return whether `start_program` could run *program*."""
    if inspect.isclass(program):
        return False
    return (
        is_graph(program)
        or is_team(program)
        or is_workflow(program)
        or callable(getattr(program, "ainvoke", None))
        or _takes_a_task(program)
    )


def start_program(program: Any, task: str, config: Mapping[str, Any] | None = None) -> Any:
    """Run *program* on *task*.

    Args:
        program: What a factory gave.
        task: What it is asked.
        config: LangGraph's, for a graph; a thread of its own where it has a checkpointer and none is named.

    Returns:
        What it gives, or an awaitable of that.

    Raises:
        ConfigError: if it is a graph in whose state there is no place for a task.
    """
    if is_graph(program):
        run_config = dict(config or {})
        if getattr(program, "checkpointer", None) and "configurable" not in run_config:
            run_config["configurable"] = {"thread_id": uuid4().hex}
        call = program.invoke if _is_sync_only(program) else program.ainvoke
        return call(_state(program, task), run_config)
    if is_team(program):
        return program.run(task=task)
    if is_workflow(program):
        return program.run(task)
    return program.ainvoke(task) if hasattr(program, "ainvoke") else program(task)


def answer_of(result: Any) -> str:
    """Read the answer in what a program gave: a text, a result or state with messages, or a state with one text."""
    if isinstance(result, str):
        return result
    if hasattr(result, "get_outputs"):  # of a workflow: the last one is its answer
        outputs = result.get_outputs()
        return answer_of(outputs[-1]) if outputs else ""
    messages = result.get("messages") if isinstance(result, Mapping) else getattr(result, "messages", None)
    if isinstance(messages, Sequence) and not isinstance(messages, str):
        texts = [text for message in messages if (text := _said(message))]
        return texts[-1] if texts else ""
    if isinstance(result, Mapping):
        answers = [result[key] for key in _ANSWERS if isinstance(result.get(key), str)]
        return str(answers[0]) if answers else json.dumps(result, ensure_ascii=False, sort_keys=True, default=str)
    answer = getattr(result, "text", None) or getattr(result, "content", None)
    return str(answer) if isinstance(answer, str) else "" if result is None else str(result)


def _said(message: Any) -> str:
    """Return what a message says; nothing for what users say, and for a team's events, which are no messages."""
    if getattr(message, "source", "") == "user" or getattr(message, "type", "") in ("human", "system"):
        return ""
    if isinstance(message, Mapping):
        return str(message.get("content") or "") if message.get("role") != "user" else ""
    if hasattr(message, "to_text"):
        return str(message.to_text()) if hasattr(message, "to_model_text") else ""
    text = getattr(message, "text", None)
    return str(text) if text is not None else str(getattr(message, "content", "") or "")


def _takes_a_task(program: Any) -> bool:
    if not callable(program):
        return False
    try:
        inspect.signature(program).bind("a task")
    except TypeError:
        return False
    except ValueError:  # built in: it has no signature to look at
        return True
    return True


def _state(graph: Any, task: str) -> dict[str, Any]:
    """Put the task where the graph takes it."""
    channels = {name for name in getattr(graph, "channels", {}) if not name.startswith(("__", "branch:"))}
    if "messages" in channels:
        from langchain_core.messages import HumanMessage  # a graph is here, so it is installed

        return {"messages": [HumanMessage(task)]}
    schema = getattr(getattr(graph, "builder", None), "input_schema", None)
    texts = [name for name, kind in _hints(schema).items() if kind is str and name in channels]
    named = [name for name in _INPUTS if name in texts] or (texts if len(texts) == 1 else [])
    if not named:
        raise ConfigError(
            f"expected a graph whose state has `messages` or one text to put the task in, got {sorted(channels)!r}. "
            "Let the factory give a function instead: lambda task: graph.invoke({...: task})"
        )
    return {named[0]: task}


def _hints(schema: Any) -> dict[str, Any]:
    try:
        return get_type_hints(schema) if schema is not None else {}
    except (TypeError, NameError):  # a schema that is no class, or names what cannot be found
        return {}


def _is_sync_only(graph: Any) -> bool:
    """Return whether a graph's checkpointer refuses to be awaited; everything else in a graph runs in an event loop."""
    read = getattr(getattr(graph, "checkpointer", None), "aget_tuple", None)
    code = getattr(read, "__code__", None)
    return code is not None and "NotImplementedError" in code.co_names


def read_tasks(path: Path) -> list[str]:
    """Read tasks: a text on each line; of a `.jsonl` file, a JSON text, or an object with the key `task`.

    Raises:
        ConfigError: if it cannot be read, or a line is no task.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"--tasks must be a text file with a task on each line, got {str(path)!r}: {reason_of(error)}"
        ) from error
    if path.suffix != ".jsonl":
        return [line.strip() for line in lines if line.strip()]
    return [_read_task(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]


def _read_task(line: str, where: str) -> str:
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    text = next((record[key] for key in _KEYS if key in record), None) if isinstance(record, dict) else record
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(
            f'{where}: expected {{"task": "..."}} or a JSON text, got {line[:80]!r}. Mend it, or name the file .txt'
        )
    return text
