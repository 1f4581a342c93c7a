"""What code may do: whatever is not known to be harmless is not allowed, and ordinary code passes untouched."""

# ruff: noqa: E501, RUF001 - a line for each piece of code, and letters that look alike

from __future__ import annotations

import time

import pytest

from blamespan.guarding.code import Allowed, find_breach

NOTHING = Allowed()

REACHES_FOR_MORE = (
    "def d(c):\n    c().m()\n    return c\n@d\nclass send_money:\n    def m(self):\n        send_money(5)",
    "'{0:{1.__class__}}'.format(1,2)",
    "'{0[a]}'.format({})",
    "class A:\n    __getattr__ = 1",
    "class A:\n    def __getattr__(self,n): pass",
    "class A(metaclass=print): pass",
    "x: send_money(5) = 1",
    "print(*map(send_money,[1]))",
    "with send_money(5): pass",
    "for x in send_money(5): pass",
    "assert send_money(5)",
    "raise send_money(5)",
    "{**send_money(5)}",
    "[*send_money(5)]",
    "x[send_money(5)]=1",
    "lambda x=send_money(5): x",
    "def f(x=send_money(5)): pass",
    "def f(*, x=send_money(5)): pass",
    "(yield send_money(5))",
    "del send_money",
    "print(end=send_money(5))",
    "x = 1\nx @= send_money(5)",
    "f'{1:{send_money(5)}}'",
    "try:\n    pass\nexcept send_money(5):\n    pass",
    "try:\n    1/0\nexcept* ValueError:\n    pass",
    "type X = send_money",
    "__builtins__",
    "__import__('os')",
    "print.__self__",
    "(1).__class__",
    "import sys",
    "import os, math",
    "from . import x",
    "import importlib",
    "from json import codecs",
    "import collections\ncollections.abc.Callable",
    "import collections\ncollections._sys",
    "import dataclasses\ndataclasses.make_dataclass('A',['x'])",
    "import typing\ntyping.get_type_hints(1)",
    "import functools\nfunctools.update_wrapper(1,2)",
    "import operator\noperator.attrgetter('x')",
    "import re\nre.template",
    "import random\nrandom.Random",
    "import string\nstring.Formatter()",
    "from functools import partial\npartial(send_money,5)()",
    "from enum import Enum\nX=Enum",
    "def f(x=lambda send_money: 0):\n    send_money(5)\nf()",
    "g=print\ndef f(*a):\n    return send_money(5)\ntry:\n    1/0\nexcept ZeroDivisionError as send_money:\n    g=f\ng()",
    "send_money(5)",
    "g = getattr\ng(bank,'x')",
    "list(map(getattr,[1],['a']))",
    "'{0.__class__}'.format(print)",
    "import pkgutil\npkgutil.resolve_name('os:system')('x')",
    "import os\nos.execvp('a',['a'])",
    "+".join(["1"] * 1500) + "\nsend_money(5)",
    "if 0:\n    send_money=1\nsend_money(5)",
    "def f():\n    return send_money(5)\nf()\ndef send_money(x):\n    pass",
    "def f():\n    [send_money for send_money in []]\n    send_money(5)\nf()",
    "for send_money in []:\n    pass\nsend_money(5)",
    "class A:\n    def __init__(s):\n        s.gi_frame=s.f_builtins=0\n(x for x in [1]).gi_frame.f_builtins['eval']('1')",
    "# coding: utf-7\n#+AAo-import os",
    "import statistics\nstatistics.sys.modules",
    "import random\nrandom._os.system('x')",
    "f='{0.x}'.format\nf(1)",
    "str.format('{0.__class__}',1)",
    "[].__class__",
    "async def f():\n    pass",
    "match 1:\n    case object(__class__=c):\n        pass",
    "(y:=send_money)(5)",
    "from math import *",
    "import json as j\nj.codecs",
    "lambda: send_money(5)",
    "print(f'{send_money(5)}')",
    "def f(x: send_money(5)): pass",
    "@send_money\ndef f(): pass",
    "import json\nm=json\nm.codecs",
    "from collections import Counter\nC=Counter\nC.update=lambda *a: 1",
    "open('x')",
    "vars()",
    "type('A',(),{})",
    "breakpoint()",
    "input()",
    "x=1\rimport os",
    "import re\nre.sre_compile",
    "send_money: int\nsend_money(5)",
    "try:\n    pass\nexcept Exception as send_money:\n    pass\nsend_money(5)",
    "while 0:\n    send_money=1\nsend_money(5)",
    "0 and (send_money:=1)\nsend_money(5)",
    "global send_money\nsend_money(5)",
    "def g():\n    global send_money\n    send_money=1\nsend_money(5)",
    "import math\nmath.sqrt=3",
    "(" * 300 + "1" + ")" * 300,
    "import collections.abc",
    "x = '{0.a}'\nx.format(1)",
    "'{}'.format_map({})",
    "getattr(bank, 'send_' + 'money')(5)",
    "eval('send' + '_money(5)')",
    "exec(__import__('base64').b64decode(b'c2VuZF9tb25leSg1KQ=='))",
    "globals()['send' '_money'](5)",
    "ｓｅｎｄ_money(5)",
    "tools['send' + '_money'](5)",
    "bank.__dict__['send_money'](5)",
    "x = yield\nsend_money",
    "import math as send_money\nsend_money(5)",
    "(lambda f: f(5))(send_money)",
    "sorted([5], key=send_money)",
    "%run x.py",
    "!ls",
    "python\nimport os",
    "if 1:\n    def f(): return send_money(5)\n    f()\nsend_money = 1",
    "def g(h):\n    while h:\n        yield h.pop()()\nL = []\nit = g(L)\ndef f(): return send_money(5)\nL[0:0] = [f]\nfor x in it: pass\nsend_money = 1",
    "def g(h):\n    while h:\n        yield h.pop()()\nL = []\nit = g(L)\ndef f(): return send_money(5)\nL[0:0] = [f]\na, = it\nsend_money = 1",
    "def g(h):\n    while h:\n        yield h.pop()()\nL = []\nit = g(L)\ndef f(): return send_money(5)\nL[0:0] = [f]\ndef h(x=[*it]): pass\nsend_money = 1",
    "send_money = 1\ndef f():\n    global send_money\n    try:\n        1/0\n    except ZeroDivisionError as send_money:\n        pass\nf()\nsend_money(5)",
    "try:\n    1/0\nexcept ZeroDivisionError as send_money:\n    g = lambda: send_money(5)\ng()",
    "try:\n    1/0\nexcept ZeroDivisionError as send_money:\n    g = (send_money(5) for x in [1])\nlist(g)",
    "def outer():\n    send_money = 1\n    def inner():\n        global send_money\n        return send_money(5)\n    return inner()\nouter()",
    "[0 and (send_money := 1) for x in [1]]\nsend_money(5)",
    "[x for send_money in send_money(5)]",
    "def run(f):\n    f(0)\n    return f\n@run\ndef send_money(x):\n    return send_money(5)",
    "from functools import lru_cache\n@lru_cache(send_money(5))\ndef f(): pass",
    "with open('x') as f:\n    send_money = 1\nsend_money(5)",
    "class send_money: pass",
)
"""Python that reaches, or may reach, what it was not given: each calls `send_money` or leads to the interpreter."""

ORDINARY = (
    "from math import sqrt, pi\ndef area(r):\n    return pi*r**2\nfor r in range(3):\n    print(f'{r}: {area(r):.3f} {sqrt(r)}')",
    "def fizz(n):\n    out=[]\n    for i in range(1,n+1):\n        if i%15==0:\n            out.append('FizzBuzz')\n        elif i%3==0:\n            out.append('Fizz')\n        else:\n            out.append(str(i))\n    return out\nprint('\\n'.join(fizz(15)))",
    "import statistics as st\ndata=[2,4,4]\nprint(st.mean(data), st.stdev(data))\nassert st.mean(data) > 3, 'x'",
    "text = 'a b a'\ncounts = {}\nfor w in text.split():\n    counts[w] = counts.get(w, 0) + 1\nfor w, c in sorted(counts.items(), key=lambda kv: (-kv[1], kv[0])):\n    print(w, c)",
    "def gen(n):\n    a, b = 0, 1\n    while a < n:\n        yield a\n        a, b = b, a+b\nprint(list(gen(50)))",
    "import json\ndata = json.loads('{\"a\": [1, 2]}')\ntotal = sum(data['a'])\nresult = {'total': total}\nprint(json.dumps(result))",
    "from __future__ import annotations\nfrom decimal import Decimal, ROUND_HALF_UP\nprint(Decimal('1.005').quantize(Decimal('0.01'), rounding=ROUND_HALF_UP))",
    "from datetime import date, timedelta\nstart = date(2025, 3, 3)\ndue = start + timedelta(days=30)\nprint(due.strftime('%d %B %Y'), due.weekday())",
    "matrix=[[1,2],[3,4]]\nprint([list(r) for r in zip(*matrix)])\nprint(any(x>3 for r in matrix for x in r))",
    "print(1)",
    "import itertools, operator\nfrom functools import reduce\nprint(reduce(operator.mul, [1,2,3]), list(itertools.combinations([1,2,3],2)))",
    "import re\nfor m in re.finditer(r'\\d+', 'a1b22'):\n    print(m.group(), m.start())",
    "global_total = 0\ndef add(x):\n    global global_total\n    global_total += x\nadd(3)\nprint(global_total)",
    "try:\n    value = float('x')\nexcept (ValueError, TypeError) as error:\n    print(f'bad: {error}')\nelse:\n    print(value)\nfinally:\n    print('done')",
    "import heapq\nh=[]\nheapq.heappush(h,(1,'a'))\nprint(heapq.heappop(h))",
    "from collections import deque\nq=deque([1])\nwhile q:\n    print(q.popleft())",
    "print(sum(range(10)))",
    "from __future__ import annotations\nfrom functools import lru_cache\nRATE = 60 * 60\ndef main(n: list[int]) -> None:\n    print(helper(n), LIMIT)\n@lru_cache(maxsize=None)\ndef helper(n):\n    return n\nLIMIT = 3\nif __name__ == '__main__':\n    main([1])",
    "def count():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n        return n\n    return up\nprint(count()())",
    "[[y for y in row if y] for row in [[1], [0]]]",
    "x={'a':1}\nprint(x['a'])",
    "def main():\n    return helper(3)\ndef helper(n):\n    return n*2\nif __name__=='__main__':\n    print(main())",
    "from collections import Counter, defaultdict\nc=Counter('abc')\nd=defaultdict(list)\nfor k in c:\n    d[k].append(1)\nprint(sorted(c.items(), key=lambda t: -t[1])[:3])",
    "try:\n    x=int('3')\nexcept ValueError as e:\n    x=0\nprint(x)",
    "ops={'+': lambda a,b:a+b}\nprint(ops['+'](1,2))",
    "print('{:.2f} {}'.format(3.14159, 2))",
    "from typing import List\ndef f(xs: List[int]) -> int:\n    return sum(xs)\nprint(f([1]))",
    "import re\nm = re.search(r'(\\d+)','a12')\nprint(m.group(1) if m else None)",
    "from functools import lru_cache\n@lru_cache(maxsize=None)\ndef fib(n):\n    return n if n<2 else fib(n-1)+fib(n-2)\nprint(fib(30))",
    "n=5\nwhile n:\n    n-=1\nprint(n)",
    "from datetime import datetime\nprint(datetime.now().year, datetime(2025,1,1).strftime('%Y'))",
    "def f():\n    if (n := 3) > 2:\n        return n\nprint(f())",
    "x = 3\nif x > 2:\n    y = 'big'\nelse:\n    y = 'small'\nprint(y)",
    "über = 'café'\nprint(über)",
    "# coding: utf-8\nprint('ok')",
)


@pytest.mark.parametrize("code", REACHES_FOR_MORE)
def test_python_that_reaches_for_more_is_not_allowed(code: str) -> None:
    """By whatever way it does: only what is known to be harmless passes."""
    assert find_breach(code, "python", NOTHING)


@pytest.mark.parametrize("code", ORDINARY)
def test_ordinary_python_passes(code: str) -> None:
    """The sound twin: loops, functions and pure modules need nobody's leave."""
    assert find_breach(code, "python", NOTHING) == ""


ASKED_ABOUT = (
    "from dataclasses import dataclass\n@dataclass\nclass V:\n    x: float\nprint(V(1))",
    "class S:\n    def size(self):\n        return 1\nprint(S().size())",
    "class E(Exception):\n    pass\nraise E('x')",
    "from enum import Enum\nclass C(Enum):\n    RED = 1",
    "def timed(f):\n    return f\n@timed\ndef g():\n    return 1\ng()",
    "if True:\n    def f():\n        return 1\n    print(f())",
    "a = []\na.b = 1",
)


@pytest.mark.parametrize("code", ASKED_ABOUT)
def test_classes_and_decorators_are_asked_about(code: str) -> None:
    """What may be harmless but is not judged does not pass by itself: the rule's action holds."""
    assert find_breach(code, "python", NOTHING)


SHELL_THAT_DOES_MORE = (
    "bank send_money 5",
    "ls | sh",
    "ls; bank",
    "ls && bank",
    "s*",
    "ls *",
    "$X",
    "`bank`",
    "echo 'a'",
    'echo "a"',
    "ls > x",
    "ls < x",
    "ls &",
    "A=b ls",
    "python x.py",
    "ls\\\nbank",
    "echo ~",
    "{ls,x}",
    "eval ls",
    "./ls",
    "/bin/ls",
    "ls\rbank",
    "ls\u2028bank",
    "l\u200bs",
    "if true",
    "echo a#b $(bank)",
    "ls() { bank; }",
)


@pytest.mark.parametrize("code", SHELL_THAT_DOES_MORE)
def test_shell_is_programs_and_plain_words(code: str) -> None:
    """Whatever a shell expands, joins or redirects is not allowed."""
    assert find_breach(code, "sh", NOTHING)


@pytest.mark.parametrize("code", ["ls -l", "echo hi", "# what is here\npwd\n\nls --all ./a.txt", ""])
def test_plain_shell_passes(code: str) -> None:
    """The sound twin: programs that only tell something."""
    assert find_breach(code, "bash", NOTHING) == ""


@pytest.mark.parametrize(
    ("code", "language", "passes"),
    [
        ("print(1)", "python", True),
        ("print(1)", "Python", True),
        ("print(1)", "py", True),
        ("print(1)", "bash", False),
        ("print(1)", "", False),
        ("ls", "", False),
        ("", "", True),
        ("# nothing", "", True),
        ("puts 1", "ruby", False),
        ("ls", "pwsh", False),
        ("ls", "shell", True),
        ("ls", "python", False),
    ],
)
def test_code_is_judged_by_its_language(code: str, language: str, passes: bool) -> None:
    """As its label says it is run; without one it must be allowed both as Python and as shell."""
    assert (find_breach(code, language, NOTHING) == "") is passes


LISTED = Allowed(
    ("pandas", "numpy.random", "bank.look", "git", "total", "os.path"),
    lambda name: name == "find_order",
    lambda name: name == "send_money",
)


@pytest.mark.parametrize(
    ("code", "passes"),
    [
        ("import pandas as pd\ndf = pd.DataFrame({'a': [1]})\nprint(df.groupby('a').sum().reset_index())", True),
        ("import numpy as np\nprint(np.random.rand(3).mean())", True),
        ("import bank\nbank.look(3)", True),
        ("from bank import look\nlook(3)", True),
        ("find_order(3)", True),
        ("print(total)", True),
        ("import bank\nbank.pay(3)", False),
        ("import numpy as np\nnp.array(1)", False),
        ("import pandas as pd\npd.io.common.os.system('x')", False),
        ("import pandas as pd\nio = pd.io\nio.common.os.system('x')", False),
        ("import pandas as pd\npd.send_money(5)", False),
        ("import pandas as pd\nx = pd.y()\nx.send_money(5)", False),
        ("import pandas as pd\nx = pd.y()\nx.__class__", False),
        ("import pandas as pd\nm = pd\nm.io", False),
        ("from os import path\nprint(path.join('a', 'b'))", True),
        ("import os.path\nprint(os.path.join('a', 'b'))", True),
        ("import os.path\nos.system('x')", False),
        ("from os import path\nx = path.os\nx.system('x')", False),
        ("from os import path\npath.os.system('x')", False),
        ("from os import system\nsystem('x')", False),
        ("from os.path import os\nos.system('x')", False),
        ("send_money(5)", False),
        ("find_orders(3)", False),
        ("import find_order", False),
    ],
)
def test_policy_allows_by_name(code: str, passes: bool) -> None:
    """A module with its own members, a function, a tool: what is named, and what is not forbidden."""
    assert (find_breach(code, "python", LISTED) == "") is passes


def test_programs_are_allowed_by_name() -> None:
    """A program that the policy names runs with plain words; another one does not."""
    assert find_breach("git status --short", "sh", LISTED) == ""
    assert find_breach("git log; rm x", "sh", LISTED)
    assert find_breach("rm x", "sh", LISTED)


HUGE = {
    "sum": "x = " + "+".join(["1"] * 50_000),
    "brackets": "x = " + "[" * 90 + "]" * 90,
    "calls": "print(" * 90 + ")" * 90,
    "names": "\n".join(f"x{number} = {number}" for number in range(15_000)) + "\nsend_money(5)",
    "functions": "\n".join(f"def f{n}():\n    return f{n + 1}() + f{n + 2}()" for n in range(300)) + "\nf0()",
    "text": "'" + "a" * 300_000 + "'",
}


@pytest.mark.parametrize("code", HUGE.values(), ids=HUGE)
def test_huge_code_is_judged_in_time(code: str) -> None:
    """However large or deep, an answer comes soon and no error does; what cannot be judged is not allowed."""
    began_s = time.perf_counter()
    why = find_breach(code, "python", NOTHING)

    assert why or "send_money" not in code
    assert time.perf_counter() - began_s < 5.0
