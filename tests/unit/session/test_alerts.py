from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepscope.cli import main
from stepscope.model.delivery import DeliveryState
from stepscope.store.alerts import AlertStore, alerts_of
from stepscope.store.index import add_run
from stepscope.store.rundir import write_meta
from tests.unit.notify.alerts_by_hand import firing, resolved
from tests.unit.notify.servers import Hook, free_port, serving


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "runs").mkdir()


def make(name: str = "r", **meta: Any) -> Path:
    run = Path("runs", name)
    run.mkdir()
    write_meta(run, {"name": name, "started_unix": 1.0, "ended_unix": 1_700_000_100.0, **meta})
    add_run(Path("runs"), run)
    return run


def tell(run: Path, *sinks: str, ids: str = "a") -> None:
    store = AlertStore(run.parent, run)
    for id in ids:
        store.add(firing(id), sinks)
    store.close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    with serving() as hook:
        yield hook


def rules(port: int, name: str = "on call", more: str = "") -> str:
    text = f'[[sink]]\ntype = "webhook"\nname = "{name}"\nurl = "http://127.0.0.1:{port}"\n{more}'
    path = Path("rules.toml")
    path.write_text(text)
    return str(path.resolve())


def test_the_alerts_of_the_latest_run_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    run = make()
    tell(run, "log alerts.log", "webhook on call")
    assert main(["alerts"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("r · 1 alert\n")
    assert "steps take 30 % longer" in printed
    assert "2 notices wait to be delivered." in printed


@pytest.mark.parametrize(
    "unix", [-1e300, 1e300, float("nan"), 10**400], ids=["early", "late", "none", "huge"]
)
def test_times_that_are_none_end_nothing(capsys: pytest.CaptureFixture[str], unix: float) -> None:
    run = make()
    tell(run, ids="ab")
    first, second = (run / "alerts.jsonl").read_text().splitlines()
    wrong = json.dumps(json.loads(first) | {"began_unix": unix})
    (run / "alerts.jsonl").write_text(f"{wrong}\n{second}\n")
    write_meta(run, {"name": "r", "ended_unix": unix})
    assert main(["alerts"]) == 0
    assert capsys.readouterr().out.startswith("r · 1 alert")


def test_as_json_there_is_a_line_for_each_run(capsys: pytest.CaptureFixture[str]) -> None:
    tell(make("r"), "x")
    tell(make("s"), ids="bc")
    make("quiet")
    assert main(["alerts", "--all", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {one["run"]: [alert["id"] for alert in one["alerts"]] for one in found} == {
        "r": ["a"],
        "s": ["b", "c"],
    }
    (alert,) = next(one for one in found if one["run"] == "r")["alerts"]
    assert alert["deliveries"] == [
        {"sink": "x", "state": "pending", "attempts": 0, "at_unix": None, "error": "", "notices": 1}
    ]
    assert main(["alerts", "quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["alerts"] == []


def test_what_waits_is_sent_with_the_rules_that_the_run_had(
    hook: Hook, capsys: pytest.CaptureFixture[str]
) -> None:
    file = rules(hook.port)
    first, second = make("r", watch_file=file), make("s", watch_file=file)
    tell(first, "webhook on call", ids="ab")
    tell(second, "webhook on call", ids="c")
    assert main(["alerts", "s", "--send"]) == 0
    assert capsys.readouterr().out == "s → webhook on call: 1 delivered\n"
    assert main(["alerts", "--send"]) == 0
    assert capsys.readouterr().out == "r → webhook on call: 2 delivered\n"
    assert hook.keys == ["c:firing", "a:firing", "b:firing"]
    assert main(["alerts", "--send"]) == 0
    assert capsys.readouterr().out == "Nothing waits to be delivered.\n"
    assert len(hook.requests) == 3
    assert alerts_of(first)[0].deliveries[0].state is DeliveryState.DELIVERED


def test_what_cannot_be_sent_still_waits_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    run = make(watch_file=rules(port))
    tell(run, "webhook on call", "mail gone", ids="ab")
    assert main(["alerts", "--send"]) == 1
    why = f"http://127.0.0.1:{port} cannot be reached (Connection refused)."
    assert capsys.readouterr().out.splitlines() == [
        f"r → webhook on call: 2 still wait: {why}",
        "r → mail gone: 2 still wait: it is not in the rules any more",
    ]
    assert alerts_of(run)[0].deliveries[0].attempts == 1


def test_what_a_server_refuses_does_not_wait(
    hook: Hook, capsys: pytest.CaptureFixture[str]
) -> None:
    hook.answers = [404]
    tell(make(watch_file=rules(hook.port)), "webhook on call")
    assert main(["alerts", "--send"]) == 0
    assert "1 refused: http://127.0.0.1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("meta", "why"),
    [
        ({}, "the run does not say by which rules it was watched"),
        ({"watch_file": "/gone/rules.toml"}, "there is no such file: name the file with --rules"),
        ({"watch_file": 5}, "meta.watch_file should be text"),
        ({"watch_file": "default"}, "it is not in the rules any more"),
    ],
)
def test_rules_that_are_gone_are_said(
    capsys: pytest.CaptureFixture[str], meta: dict[str, Any], why: str
) -> None:
    tell(make(**meta), "webhook on call")
    assert main(["alerts", "--send"]) == 1
    assert why in capsys.readouterr().out


def test_rules_that_may_have_come_with_a_run_are_not_followed_unless_they_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = tmp_path / "ran"
    text = f'[[sink]]\ntype = "command"\nname = "c"\ncommand = ["touch", "{ran}"]\n'
    run = make()
    within, beside = run / "rules.toml", run.parent / "rules.toml"
    link = tmp_path / "link.toml"
    link.symlink_to(within)
    for path in (within, beside):
        path.write_text(text)
    tell(run, "command c")
    for named in (within, beside, link):
        write_meta(run, {"name": "r", "watch_file": str(named.absolute())})
        assert main(["alerts", "--send"]) == 1
        printed = capsys.readouterr().out
        assert "lies in a folder of runs: name the file with --rules FILE" in printed
    assert not ran.exists()
    assert main(["alerts", "--send", "--rules", str(within)]) == 0
    assert capsys.readouterr().out == "r → command c: 1 delivered\n"
    assert ran.exists()


def test_rules_of_others_are_not_followed(
    hook: Hook, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(rules(hook.port))
    run = make()
    tell(run, "webhook on call")

    def said(named: str) -> str:
        write_meta(run, {"name": "r", "watch_file": named})
        assert main(["alerts", "--send"]) == 1
        return capsys.readouterr().out

    assert "it is no absolute path" in said("rules.toml")
    assert "it is no regular file" in said(str(file.parent))
    assert "it cannot be read" in said("/\x00\x1b[2J")
    with monkeypatch.context() as patch:
        patch.setattr("os.getuid", lambda: file.stat().st_uid + 1)
        assert "belongs to another user" in said(str(file))
    file.chmod(0o666)
    assert "everybody may write to the file" in said(str(file))
    assert hook.requests == []
    file.chmod(0o644)
    assert main(["alerts", "--send"]) == 0


def test_one_sink_that_cannot_be_made_does_not_keep_the_others(
    hook: Hook, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = '[[sink]]\ntype = "webhook"\nname = "b"\nurl = "https://a/$NO_SUCH_VARIABLE"\n'
    server = '[[sink]]\ntype = "prometheus"\nport = 1\n'
    run = make(watch_file=rules(hook.port, more=wrong + server))
    tell(run, "webhook on call", "webhook b")
    assert main(["alerts", "--send"]) == 1
    printed = capsys.readouterr().out
    assert "webhook on call: 1 delivered" in printed
    assert "NO_SUCH_VARIABLE, which is not set" in printed


def test_what_a_run_that_goes_on_is_at_work_on_is_left_to_it(
    hook: Hook, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make(watch_file=rules(hook.port))
    store = AlertStore(run.parent, run)
    store.add(firing(), ["webhook on call"])
    assert main(["alerts", "--send"]) == 1
    assert "another process is at work on it" in capsys.readouterr().out
    assert hook.requests == []
    store.close()


def test_a_run_elsewhere_needs_no_folder_of_runs(
    hook: Hook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make(watch_file=rules(hook.port))
    tell(run, "webhook on call")
    elsewhere = tmp_path / "other" / "r"
    elsewhere.parent.mkdir()
    run.rename(elsewhere)
    for path in Path("runs").iterdir():
        path.unlink()
    Path("runs").rmdir()
    told = json.loads((elsewhere / "alerts.jsonl").read_text())
    (elsewhere / "alerts.jsonl").write_text(json.dumps(told | {"owner": ""}))
    assert main(["alerts", str(elsewhere), "--send"]) == 0
    assert hook.keys == ["a:firing"]
    capsys.readouterr()
    assert main(["alerts", str(elsewhere)]) == 0
    assert "told webhook on call" in capsys.readouterr().out


def test_an_end_is_shown_and_not_its_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    run = make()
    store = AlertStore(run.parent, run)
    store.add(firing(), [])
    store.add(resolved(), [])
    assert main(["alerts"]) == 0
    printed = capsys.readouterr().out
    assert "1 min 00 s, over" in printed
    assert printed.count("steps take") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["r", "--all"], "Name a run"),
        (["nope"], "There is no run nope"),
        (["--rules", "rules.toml"], "use it with --send"),
        (["--send", "--rules", "gone.toml"], "gone.toml: there is no such file"),
    ],
)
def test_what_cannot_be_is_said(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    make()
    assert main(["alerts", *words]) == 2
    assert said in capsys.readouterr().err
