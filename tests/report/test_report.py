"""Reports.

What is said about captures, breaks, recompiles and constants, in text, JSON and HTML; explain, dry_run, assertions.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import urllib.parse
import weakref

import pytest
import torch

import framelift
from framelift.report import SCHEMA
from framelift.surface import cli, compiling
from framelift.testing import assert_captured, check_captured

X = torch.ones(2, 3)


def branch(x):
    y = x.sin()
    if y.sum() > 0:
        return y
    return -y


def scaled(x, n, values):
    return x * n + len(values)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.scale = 2

    def forward(self, x, mask=None):
        return self.layer(x) * self.scale


def compiled(function, **options):
    return framelift.compile(function, backend="eager", **options)


# ---- the record ------------------------------------------------------------------------------------------------------


def test_print_is_one_paragraph() -> None:
    f = compiled(branch)
    assert str(f) == "<compiled branch: not captured yet>"
    f(X)
    assert "1 break" in str(f) and "\nfirst break at " in str(f) and "test_report.py:" in str(f)
    g = compiled(lambda x: x + 1)
    g(X), g(X)
    assert "1 graph with 1 operation from 1 capture" in str(g) and "2 calls served, no breaks, no recompiles" in str(g)


def test_dropped_captures_stay_in_the_record_as_plain_values() -> None:
    f = compiled(scaled)
    f(X, 1, [1])
    f(X, 2, [1])
    f.entries.clear()
    found = f.report()
    assert found.captures == 2 and found.graphs == 2
    assert [c.hits for function in found.functions for c in function.captures] == [-1, -1]
    assert found.recompiles[0].changes == (("1", "2"),)


def test_reset_clears_the_record() -> None:
    f = compiled(scaled)
    f(X, 1, [1])
    framelift.reset()
    assert f.report().captures == 0 and str(f).endswith("not captured yet>")


def test_a_module_prints_its_modules_and_one_line() -> None:
    f = framelift.compile(Model(), backend="eager")
    f(X)
    modules, _, line = str(f).rpartition("\n")
    assert modules == repr(f) and modules.startswith("OptimizedModule(\n  (_orig_mod): Model(")
    assert line.startswith("<compiled Model: 1 graph with")


def test_time_is_known_by_function_without_asking() -> None:
    def inner(x, depth):
        return inner(x, depth - 1) + 1 if depth else x

    def outer(x):
        return inner(x, 3) * 2

    f = compiled(outer)
    f(X)
    times = {one.name.rpartition(".")[2]: one for one in f.report().times}
    assert times["inner"].calls == 4 and times["outer"].calls == 1 and not times["inner"].library
    assert 0 < times["outer"].own < times["outer"].total <= f.report().phases["rehearse"]
    assert 0 < times["inner"].own <= times["inner"].total * 1.001  # the outermost frames only
    assert "rehearsing time by function" in f.report().to_text()


# ---- breaks, recompiles, constants -----------------------------------------------------------------------------------


def test_breaks_are_grouped_by_root_cause() -> None:
    def outer(x):
        return branch(x) + 1

    f = compiled(outer)
    f(X)
    found = f.report()
    (one,) = found.breaks
    assert one.reason == "tensor-bool" and one.source.expression == "y.sum() > 0"
    assert one.source.caret.splitlines()[1].strip("^ ") == "" and one.times >= 1
    assert one.page == "python -m framelift explain tensor-bool" and "torch.where(y.sum() > 0, a, b)" in one.fix
    assert [link.text.split()[0] for link in one.provenance] == ["gt", "sum", "sin", "x,"]


def test_a_break_says_its_callers_and_what_it_costs() -> None:
    def first(x):
        return branch(x) + 1

    def second(x):
        return branch(x * 2) - 1

    def both(x):
        return first(x) + second(x)

    f = compiled(both)
    f(X)
    (one,) = f.report().breaks
    assert sorted(caller.expression for caller in one.callers) == ["branch(x * 2)", "branch(x)"]
    assert one.graphs >= 2 and one.extra >= 3 and 0 < one.seconds < f.report().seconds
    assert "further captures because of it" in f.report().to_text()


def accumulate(x, items):
    total = 0.0
    for item in items:
        total += (x * item).sum().item()
        x = x + total
    return x


def test_steps_of_a_loop_around_a_break_are_no_break_of_their_own() -> None:
    f = compiled(accumulate)
    f(X, [X, X + 1, X + 2])
    found = f.report()
    (one,) = found.breaks
    assert one.reason == "tensor-item" and [loop.expression.partition(":")[0] for loop in one.loops] in (
        ["for item in items"],
        ["items"],
    )
    assert str(f).count("1 break,") == 1 and framelift.explain(accumulate)(X, [X, X + 1, X + 2]).graph_break_count == 1


def test_an_expression_that_uses_what_a_break_gave_is_part_of_it() -> None:
    f = compiled(lambda x: x.to_dense() + 1)
    f(torch.eye(3).to_sparse())
    (one,) = f.report().breaks
    assert one.reason == "tensor-kind" and not one.loops


def divided(x):
    return x / x.abs().max().item()


def test_values_on_the_stack_are_called_by_their_expressions() -> None:
    f = compiled(divided)
    f(X), f(X * 2), f(X * 3)
    found = f.report()
    (again,) = found.recompiles
    assert (
        again.origin == "x.abs().max().item()"
        and again.result_of == found.breaks[0].id
        and "fix that break" in again.fix
    )
    behind = next(c for c in found.functions[0].captures if c.resume)
    assert behind.after == found.breaks[0].id and "# resumes after: x.abs().max().item()" in behind.resume
    assert "# with the values of: x, x.abs().max().item()" in behind.resume and behind.resume.endswith(
        "return x / x.abs().max().item()\n"
    )
    shown = found.to_json() + found.to_text()
    assert '".1' not in shown and " .1" not in shown and " .0" not in shown


def test_printing_has_a_fix_of_its_own() -> None:
    def printing(x):
        print("here")
        return x + 1

    (one,) = framelift.dry_run(printing, X).breaks
    assert "reorderable_logging_functions.add(print)" in one.fix
    with framelift.config.patch(reorderable_logging_functions={print}):
        assert not framelift.dry_run(printing, X).breaks


def test_calls_beyond_the_limit_are_told() -> None:
    f = compiled(scaled, dynamic=False)
    with (
        framelift.config.patch(recompile_limit=2),
        pytest.warns(UserWarning, match="scaled was compiled 2 times") as caught,
    ):
        for length in range(5):
            f(X, 1, [0] * length)
    assert caught[0].filename == __file__
    (one,) = f.report().refusals
    assert (one.name, one.why, one.calls) == ("scaled", "limit", 3) and "values now has 2 items, had 1" in one.sentence
    assert (
        "3 calls ran eagerly, config.recompile_limit is reached" in f.report().to_text()
        and "3 calls ran eagerly" in str(f)
    )
    framelift.reset()
    assert not f.report().refusals


def test_guards_say_what_each_call_compares() -> None:
    f = framelift.compile(Model(), backend="eager")
    f(X), f(X)
    tree = f.report().functions[0].captures[0].guard_tree
    assert sum(guard.words for guard in tree) > 0 and any(guard.words == 0 for guard in tree)


def test_recompiles_are_old_new_diffs_by_value() -> None:
    f = compiled(scaled)
    f(X, 1, [1])
    f(X, 1, [1, 2])
    f(X, 1, [1, 2, 3])
    (one,) = f.report().recompiles
    assert (one.origin, one.kind, one.times) == ("values", "LEN", 1)  # a length that changed is symbolic
    assert one.changes == (("1 item", "2 items"),)
    assert one.source.expression == "values" and "len(values)" in one.source.caret
    f = compiled(scaled)
    f(X, 1, (1,)), f(X, 1, (1, 2)), f(X, 1, (1, 2, 3))
    (one,) = f.report().recompiles
    assert (one.origin, one.times, one.changes) == ("values", 2, (("(1,)", "(1, 2)"), ("(1, 2)", "(1, 2, 3)")))


@pytest.mark.parametrize(
    ("first", "second", "third"),
    [((X, 2), (X, 3), (X, 4)), ((X, 1.5), (X, 2.5), (X, 3.5)), ((X, 2), (X.repeat(2, 1), 2), (X.repeat(5, 1), 2))],
)
def test_what_is_symbolic_since_it_changed_is_settled(first, second, third) -> None:
    def program(x, n):
        return x.mean(0) * n

    f = compiled(program)
    f(*first), f(*second), f(*third)
    (one,) = f.report().recompiles
    assert (
        one.settled
        and one.times == 1
        and one.fix.startswith("Nothing more to do")
        and "symbolic since then" in f.report().to_text()
    )
    again = compiled(program, dynamic=True)  # what the fix names
    again(*first), again(*second), again(*third)
    assert not again.report().recompiles


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def test_a_decorated_function_is_shown_by_its_own_names() -> None:
    f = compiled(logged(scaled))
    f(X, 1, values=[1])
    f(X, 1, values=[1, 2])
    found = f.report()
    assert found.functions[0].name == "scaled" and found.recompiles[0].origin == "values"
    assert found.recompiles[0].source.line == scaled.__code__.co_firstlineno + 1
    assert found.functions[0].captures[0].inputs == ("x: float32 (2, 3)",)


def test_constants_name_the_reading_expression() -> None:
    f = framelift.compile(Model(), backend="eager")
    f(X)
    ledger = {one.origin: one for one in f.report().specialisations}
    assert ledger["self.scale"].value == "2" and ledger["self.scale"].source.expression == "self.scale"
    assert ledger["x"].kind == "shape" and ledger["x"].source.function.endswith("Model.forward")


def test_a_module_is_shown_by_its_forward() -> None:
    f = framelift.compile(Model(), backend="eager")
    f(X, mask=None)
    found = f.report()
    assert found.functions[0].name == "Model.forward" and found.functions[0].root
    assert any(text.startswith("x: float32") for text in found.functions[0].captures[0].inputs)
    assert "self.layer.weight: float32 (3, 3)" in found.functions[0].captures[0].inputs


def test_a_module_with_an_attribute_called_report_keeps_it() -> None:
    class Own(Model):
        def report(self):
            return "mine"

    assert framelift.compile(Own(), backend="eager").report() == "mine"


def test_the_graph_shows_the_users_lines() -> None:
    f = compiled(scaled)
    f(X, 2, [])
    (capture,) = f.report().functions[0].captures
    assert "test_report.py:" in capture.graph
    assert ": return x * n + len(values)" in capture.graph and capture.graph.rstrip().splitlines()[-1].startswith(
        "    return ("
    )
    assert "def entry(inputs, externals)" in capture.entry
    assert any(guard.path == "n" and guard.checks == ("== 2",) for guard in capture.guard_tree)


# ---- forms -----------------------------------------------------------------------------------------------------------


def matches(value, rule, defs) -> bool:
    """As much of JSON schema as ours uses."""
    if "$ref" in rule:
        return matches(value, defs[rule["$ref"].rpartition("/")[2]], defs)
    if "anyOf" in rule:
        return any(matches(value, one, defs) for one in rule["anyOf"])
    kinds = {
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "null": type(None),
        "array": list,
        "object": dict,
    }
    if not isinstance(value, kinds[rule["type"]]):
        return False
    if rule["type"] == "array":
        rules = rule.get("prefixItems") or [rule["items"]] * len(value)
        return len(rules) == len(value) and all(matches(v, r, defs) for v, r in zip(value, rules))
    if rule["type"] == "object" and "properties" in rule:
        return value.keys() == rule["properties"].keys() and all(
            matches(v, rule["properties"][k], defs) for k, v in value.items()
        )
    return True


def test_json_follows_its_schema_and_ids_are_stable() -> None:
    texts = []
    for _ in range(2):
        framelift.reset()
        f = compiled(branch)
        f(X)
        g = compiled(scaled)
        g(X, 1, [1]), g(X, 2, [1])
        texts.append([json.loads(one.report().to_json()) for one in (f, g)])
    for document in texts[0]:
        assert matches(document, SCHEMA, SCHEMA["$defs"])
        assert document["schema"] == 6
    ids = [
        [(b["id"], [r["id"] for r in d["recompiles"]]) for d in document for b in d["breaks"] or [{"id": ""}]]
        for document in texts
    ]
    assert ids[0] == ids[1] and any("tensor-bool@" in id_ for id_, _ in ids[0])


def test_text_is_plain_or_coloured() -> None:
    f = compiled(branch)
    f(X)
    plain, coloured = f.report().to_text(), f.report().to_text(colour=True)
    assert "\x1b[" not in plain and "\x1b[" in coloured
    for part in ("breaks", "fix:", "y.sum() > 0", "^^^", "from: gt gave", "python -m framelift explain tensor-bool"):
        assert part in plain


def test_html_is_one_file_that_names_everything() -> None:
    f = compiled(branch)
    f(X)
    page = f.report().to_html()
    assert (
        page.count("<script") == 2
        and "src=" not in page.split("<script")[0]
        and "http" not in page.split('id="data"')[0]
    )
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert data["breaks"][0]["source"]["expression"] == "y.sum() > 0"


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
@pytest.mark.parametrize(
    ("view", "texts"),
    [
        ("", ("torch.where(y.sum() &gt; 0, a, b)", "<mark>y.sum() &gt; 0</mark>", "splits 1 graph")),
        ("#/timeline", ("p-rehearse", "Chrome trace", "Rehearsing time by function")),
        ("#/constants", ("specialized on", "(2, 3)")),
        ("#/function/FUNCTION", ("Graph", "l_x_.sin()", "Entry: the function that runs instead", "Ended by", "Guards")),
    ],
)
def test_a_browser_shows_the_page(tmp_path, view, texts) -> None:
    f = compiled(branch)
    f(X)
    view = view.replace("FUNCTION", urllib.parse.quote(f.report().functions[0].id, safe=""))
    f.report().save(tmp_path / "r.html")
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"file://{tmp_path}/r.html{view}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    shown = done.stdout.split("<main")[1].split("</main>")[0]
    assert not [text for text in texts if text not in shown]


def test_the_page_of_a_large_model_is_small() -> None:
    f = framelift.compile(torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(220))), backend="eager")
    f(X)
    found = f.report()
    assert found.guards > 3000 and len(found.to_html()) < 2_000_000


def test_text_in_a_page_cannot_end_its_script() -> None:
    def odd(x):
        return x + len("</script><b>{{style}}")

    f = compiled(odd)
    f(X)
    page = f.report().to_html(title="<&>")
    assert page.count("</script>") == 2 and "<title>&lt;&amp;&gt;</title>" in page
    assert (
        "{{style}}"
        in json.loads(page.split('id="data">')[1].split("</script>")[0])["functions"][0]["captures"][0]["graph"]
    )


def test_saved_by_the_files_ending(tmp_path) -> None:
    f = compiled(branch)
    f(X)
    for name, start in (("r.html", "<!doctype html>"), ("r.json", "{"), ("r.txt", "branch: ")):
        f.report().save(tmp_path / name)
        assert (tmp_path / name).read_text().startswith(start)


# ---- the command line ------------------------------------------------------------------------------------------------

SCRIPT = """
import sys, torch, framelift
def f(x):
    return x.sum().item()
def run():
    framelift.compile(f, backend="eager")(torch.ones(2))
run()
sys.exit(int(sys.argv[1]))
"""


def test_report_of_a_script(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(compiling, "_compiled", compiling._compiled)
    script, out = tmp_path / "script.py", {kind: str(tmp_path / f"out.{kind}") for kind in ("html", "json", "trace")}
    script.write_text(SCRIPT)
    status = cli.main(
        ["report", "-o", out["html"], "--json", out["json"], "--trace", out["trace"], "--text", str(script), "3"]
    )
    assert status == 3
    document = json.loads(open(out["json"]).read())
    assert document["name"] == "script.py" and document["breaks"][0]["source"]["line"] == 4
    assert {event["cat"] for event in json.loads(open(out["trace"]).read())["traceEvents"][1:]} >= {
        "rehearse",
        "guards",
    }
    assert open(out["html"]).read().startswith("<!doctype html>")
    printed = capsys.readouterr()
    assert "[tensor-item]" in printed.out and "HTML report in" in printed.err


def test_a_script_that_is_missing_or_fails(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(compiling, "_compiled", weakref.WeakSet())  # what other tests compiled is alive, maybe
    out = tmp_path / "out.html"
    assert cli.main(["report", "-o", str(out), str(tmp_path / "missing.py")]) == 2
    assert capsys.readouterr().err == f"framelift: there is no script {tmp_path / 'missing.py'}\n" and not out.exists()
    script = tmp_path / "fails.py"
    script.write_text("def f():\n    raise ValueError('mine')\nf()\n")
    assert cli.main(["report", "-o", str(out), str(script)]) == 1
    text = capsys.readouterr().err
    assert (
        "ValueError: mine" in text
        and "cli.py" not in text
        and "runpy" not in text
        and "nothing was called: the script calls neither torch.compile nor framelift.compile" in text
        and out.exists()
    )


COMPILES = """
import sys, torch
f = torch.compile(lambda x: x + 1, backend="eager")
if "--call" in sys.argv:
    f(torch.ones(2))
print(sys.argv[1:])
"""


def test_a_script_that_calls_torch_compile(tmp_path, capsys, monkeypatch) -> None:
    """The command's flags stand before or behind it, its own stay its own."""
    monkeypatch.setattr(compiling, "_compiled", compiling._compiled)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(COMPILES)
    for words, theirs in (
        (["--json", "a.json", "-o", "-", "train.py", "--call", "1"], ["--call", "1"]),
        (["train.py", "--call", "1", "--json", "a.json", "-o", "-"], ["--call", "1"]),
        (["train.py", "--json=a.json", "-o", "-", "--", "--call", "--text"], ["--call", "--text"]),
        (["-m", "train", "--json=a.json", "-o", "-", "--call", "-m", "x"], ["--call", "-m", "x"]),
    ):
        assert cli.main(["report", *words]) == 0
        assert capsys.readouterr().out == f"{theirs}\n"
        assert json.loads((tmp_path / "a.json").read_text())["graphs"] == 1
        (tmp_path / "a.json").unlink()
        compiling._compiled.clear()
    assert not list(tmp_path.glob("*.html")) and not framelift.is_installed()
    assert cli.main(["report", "train.py", "--text"]) == 0
    printed = capsys.readouterr()
    assert printed.out.endswith("train.py: nothing was called\n")
    assert "nothing was called: the script compiles something, and made no call of it" in printed.err
    assert "Nothing was called" in (tmp_path / "framelift_report.html").read_text()
    compiling._compiled.clear()


def test_help_is_for_people(capsys) -> None:
    for words, said in (
        (["--help"], ["examples:", "framelift report train.py", "a graph break's reason"]),
        (["report", "--help"], ["behind", "SCRIPT", "--json FILE"]),
        (["run", "--help"], ["the program to run"]),
    ):
        with pytest.raises(SystemExit) as stop:
            cli.main(words)
        assert stop.value.code == 0
        text = capsys.readouterr().out
        assert all(part in text for part in said) and "==SUPPRESS==" not in text
    assert cli.main([]) == 2 and "examples:" in capsys.readouterr().out
    assert cli.main(["report"]) == 2 and "name a script" in capsys.readouterr().err


def test_what_was_not_compiled_has_no_report() -> None:
    for ask in (framelift.report.report, lambda f: framelift.save_repro(f, "unused.py")):
        with pytest.raises(TypeError, match="this needs what framelift.compile returned, not a function"):
            ask(branch)


def test_reasons_on_the_command_line(capsys) -> None:
    assert (
        cli.main(["explain"]) == 0
        and cli.main(["explain", "tensor-bool"]) == 0
        and cli.main(["explain", "nothing"]) == 2
    )
    assert cli.main(["explain", "tensor-bol"]) == 2
    printed = capsys.readouterr()
    assert (
        "torch.where" in printed.out
        and "unknown-callable" in printed.out
        and "no reason is called 'nothing'" in printed.err
        and "did you mean tensor-bool?" in printed.err
    )


# ---- explain and dry_run ---------------------------------------------------------------------------------------------


def test_explain_leaves_other_captures_alone() -> None:
    f = compiled(scaled)
    f(X, 1, [])
    found = framelift.explain(f)(X, 1, [])
    assert (found.graph_count, found.graph_break_count, found.op_count) == (1, 0, 2)
    assert found.ops_per_graph and found.out_guards and torch.equal(found.result, X)
    assert len(f.entries) == 1 and f.entries[0].hits == 1
    assert str(found).startswith("Graph Count: 1\nGraph Break Count: 0\nOp Count: 2\n")


def test_explain_names_breaks() -> None:
    found = framelift.explain(branch)(X)
    assert found.graph_break_count == 1 and found.break_reasons[0].user_stack[-1].function == "branch"
    assert "values of a tensor" in found.break_reasons[0].reason


def test_dry_run_runs_nothing() -> None:
    seen = []

    def effect(x):
        seen.append(1)
        return x.sum().item()

    found = framelift.dry_run(effect, X)
    assert seen == [] and found.breaks[0].source.expression == "x.sum().item()"
    assert framelift.dry_run(Model(), X).graphs == 1


# ---- assertions ------------------------------------------------------------------------------------------------------


def test_assert_captured() -> None:
    assert torch.equal(assert_captured(scaled, X, 2, []), X * 2)
    with pytest.raises(AssertionError, match=r"1 breaks, expected 0") as caught:
        assert_captured(branch, X, graphs=None)
    assert "fix: " in str(caught.value)
    with pytest.raises(AssertionError, match=r"2 graphs, expected 1; 1 recompiles, expected 0"):
        assert_captured(scaled, X, 2, [], inputs=[(X, 3, [])])
    f = compiled(scaled)
    f(X, 1, [])
    check_captured(f)


PLUGIN_TEST = """
import pytest, torch
def test_whole(captured):
    captured(lambda x: x + 1, torch.ones(2))
@pytest.mark.captured(graphs=None, breaks=1)
def test_broken(captured):
    captured(lambda x: x.sum().item(), torch.ones(2))
def test_fails(captured):
    captured(lambda x: x.sum().item(), torch.ones(2))
"""


def test_pytest_plugin(tmp_path) -> None:
    (tmp_path / "test_it.py").write_text(PLUGIN_TEST)
    seen = []

    class Watch:
        def pytest_runtest_logreport(self, report):
            if report.when == "call":
                seen.append((report.nodeid.rpartition(":")[2], report.outcome))

    arguments = [
        "-q",
        "-p",
        "framelift.pytest_plugin",
        "-p",
        "no:cacheprovider",
        "--strict-markers",
        "--no-header",
        "--rootdir",
        str(tmp_path),
    ]
    pytest.main([*arguments, str(tmp_path)], plugins=[Watch()])
    assert seen == [("test_whole", "passed"), ("test_broken", "passed"), ("test_fails", "failed")]
