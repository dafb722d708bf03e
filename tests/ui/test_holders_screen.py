"""The Holders screen: searched when asked for, given up on leaving, said why not, walked through by keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from driving import Driven, all_ascii, driven
from graph_data import WithGraph, training_graph
from holders_data import CHAINS, GONE, WithHolders, chain, leak, renewed
from test_screens import LARGE, MIDDLE
from textual.widgets import Static
from ui_data import NOW, after

from tensortui.errors import TensortuiError
from tensortui.model import Ended, Holders, Sample
from tensortui.ui.commands import Commands
from tensortui.ui.screens.findings import FindingsScreen
from tensortui.ui.screens.graph import GraphScreen
from tensortui.ui.screens.help import MANUAL, HelpScreen, in_ascii
from tensortui.ui.screens.holders import HoldersScreen
from tensortui.ui.screens.layout import LayoutScreen
from tensortui.ui.screens.tensors import TensorsScreen
from tensortui.wire.messages import CHAINS_LIMIT


class Opened:
    """The Holders screen under a pilot."""

    def __init__(self, it: Driven, source: WithHolders) -> None:
        self.it, self.source, self.app = it, source, it.app
        self.press, self.until, self.pilot = it.press, it.until, it.pilot

    @property
    def screen(self) -> HoldersScreen:
        screen = self.app.screen
        assert isinstance(screen, HoldersScreen)
        return screen

    def rows(self) -> list[str]:
        tree = self.screen.tree_view
        lines = [tree.render_line(y).text.rstrip() for y in range(1, tree.size.height)]
        return [line for line in lines if line]

    def here(self) -> str:
        tree = self.screen.tree_view
        return tree.render_line(1 + tree.cursor - tree._top).text.rstrip()

    def text_of(self, selector: str) -> str:
        return str(self.screen.query_one(selector, Static).content)

    async def settled(self) -> None:
        await self.until(lambda: not self.screen.search.under_way)
        await self.pilot.pause()

    async def give(self, update: Sample | Ended) -> None:
        self.source.queue.put_nowait(update)
        await self.until(lambda: self.app.feed is not None and update in (self.app.feed.sample, self.app.feed.ended))
        self.screen.tick()
        await self.pilot.pause()

    async def at(self, kind: type) -> None:
        await self.until(lambda: isinstance(self.app.screen, kind))
        await self.pilot.pause()


@asynccontextmanager
async def opened(
    *answer: Holders | Exception,
    wait: bool = True,
    size: tuple[int, int] = LARGE,
    missing: str = "",
    ascii_only: bool = False,
) -> AsyncIterator[Opened]:
    sample, found, tid = leak()
    source = WithHolders(sample, answer=answer[0] if answer else found)
    if missing:
        source.missing["holders"] = missing
    async with driven(sample, source=source, size=size, ascii_only=ascii_only) as it:
        assert it.tree.go_to(tid)
        if not wait:
            source.may.clear()
        await it.press("h")
        one = Opened(it, source)
        await one.at(HoldersScreen)
        if wait:
            await one.settled()
        yield one


async def test_the_holders_of_the_selected_tensor_are_searched_once_and_never_polled() -> None:
    async with opened() as it:
        _, _, tid = leak()
        assert it.source.asked == [(tid, 8)]
        assert it.text_of("#head").startswith(" trainer.logs['val_logits'][3]  (4096, 4000) f32 cuda:0")
        assert " kept by trainer.logs['val_logits'][3]  and 5 other chains" in it.text_of("#head")
        it.it.clock.now += 30
        it.screen.tick()
        await it.pilot.pause()
        assert len(it.source.asked) == 1
        assert "searched 30 s ago" in it.text_of("#head")
        await it.press("r")
        await it.settled()
        assert len(it.source.asked) == 2
        assert "searched 0.0 s ago" in it.text_of("#head")


async def test_each_chain_goes_from_its_root_and_what_ends_alike_is_told_once() -> None:
    async with opened() as it:
        rows = it.rows()
        assert [row.split("  ")[0].strip() for row in rows[:5]] == ["▼ 1", "", "", "", ""]
        assert rows[1].split() == ["trainer", "variable", "of", "a", "module"]
        assert rows[4].split()[0] == "[3]"
        assert rows[5].startswith(" ▼ 2  self.trainer.logs['val_logits'][3] @ fit() train.py:42")
        assert "ends like 1: .logs['val_logits'][3]" in rows[8] and rows[8].endswith("3 holders")
        assert "history[12] @ evaluate() eval.py:88 [evaluator] → saved as self by LogSoftmaxBackward0" in rows[9]


async def test_the_detail_says_what_the_chain_means_and_how_to_let_go() -> None:
    async with opened() as it:
        assert "means    A list keeps it until it is taken out: trainer.logs" in it.text_of("#detail")
        await it.press("j", "j")
        assert it.text_of("#detail").startswith("trainer.logs  attribute\n")
        await it.press("G")
        assert "gc.collect() would free it" in it.text_of("#detail")


async def test_chains_close_and_open_and_a_common_end_leads_to_its_like() -> None:
    async with opened() as it:
        everything = it.rows()
        await it.press("j", "j", "left")
        assert it.here().startswith(" ▶ 1  trainer.logs")
        assert len(it.rows()) == len(everything) - 4
        await it.press("right")
        assert it.rows() == everything
        await it.press("C")
        assert len(it.rows()) == len(CHAINS)
        await it.press("j", "enter", "j", "j", "j")
        assert "ends like 1" in it.here()
        await it.press("enter")
        assert it.here().startswith(" ▼ 1  trainer.logs")
        await it.press("E")
        assert it.rows() == everything


async def test_while_it_searches_it_says_how_far_it_is() -> None:
    async with opened(wait=False) as it:
        assert "looking for what keeps trainer.logs['val_logits'][3] alive" in it.text_of("#state")
        await it.until(lambda: it.source.progress is not None)
        assert it.source.progress is not None
        it.source.progress("searching level 3, 412 MiB \x1b[2J")
        it.it.clock.now += 7
        it.source.why_held = "stopped by a signal (T)"
        it.screen.tick()
        told = it.text_of("#state")
        assert "searching level 3, 412 MiB \\e[2J" in told and "7.0 s so far" in told
        assert "stopped by a signal (T)" in told
        await it.press("r", "m", "y", "enter", "left", "E", "C", "j", "G")  # nothing of it makes sense yet
        assert len(it.source.asked) == 1
        it.source.may.set()
        await it.settled()
        assert len(it.rows()) > 10


async def test_leaving_gives_a_search_up() -> None:
    for key, screen in (("escape", TensorsScreen), ("1", TensorsScreen), ("6", FindingsScreen), ("2", LayoutScreen)):
        async with opened(wait=False) as it:
            await it.until(lambda it=it: bool(it.source.asked))  # type: ignore[misc]
            await it.press(key)
            await it.at(screen)
            await it.until(lambda it=it: it.source.given_up == 1)  # type: ignore[misc]


async def test_nothing_found_is_said_and_why() -> None:
    async with opened(Holders(4)) as it:
        assert "no holder was found: what keeps it is C++ code" in it.text_of("#state")
        assert not it.screen.tree_view.display
    async with opened(Holders(4, reasons=("Frames were\nskipped.",), complete=False)) as it:
        assert "not everything could be followed" in it.text_of("#state")
        assert "Frames were\\nskipped." in it.text_of("#state")
        it.source.answer = leak()[1]
        await it.press("r")
        await it.settled()
        assert len(it.rows()) > 10 and it.screen.tree_view.display


async def test_what_was_not_searched_is_said_above_what_was_found() -> None:
    async with opened(Holders(4, CHAINS[:1], ("cut at 200 MiB",), False)) as it:
        assert it.text_of("#notice") == "▲! cut at 200 MiB"
    async with opened(Holders(4, CHAINS[:1], (), False)) as it:
        assert "not everything could be followed: there may be more chains" in it.text_of("#notice")
    async with opened(Holders(4, CHAINS[:1])) as it:
        assert not it.screen.query_one("#notice").display


async def test_more_chains_are_looked_for_where_there_may_be_some() -> None:
    many = tuple(chain("global cache", f"index [{at}]") for at in range(20))
    async with opened(Holders(4, many)) as it:
        assert "the first 8 chains that were found: m looks for more" in it.text_of("#notice")
        await it.press("m")
        await it.settled()
        assert [limit for _, limit in it.source.asked] == [8, CHAINS_LIMIT]
        assert "and 19 other chains" in it.text_of("#head")
        await it.press("m")
        assert "all the chains that were found" in it.it.notes()
        assert len(it.source.asked) == 2


async def test_a_tensor_that_is_gone_leads_to_what_has_its_name_now() -> None:
    sample, _, tid = leak()
    async with opened() as it:
        await it.give(renewed(sample, tid))
        assert "the tensor is gone by now" in it.text_of("#notice")
        assert len(it.rows()) > 10  # what was found stays
        await it.press("r")
        await it.settled()
        assert [asked for asked, _ in it.source.asked] == [tid, tid + 100]
        assert not it.screen.query_one("#notice").display
        await it.give(after(it.app.feed.sample, gone=[tid + 100]))  # type: ignore[union-attr, arg-type]
        await it.press("r")
        await it.settled()
        assert len(it.source.asked) == 2
        assert "trainer.logs['val_logits'][3] is gone\n\nnothing holds it any more" in it.text_of("#state")


async def test_why_there_is_no_answer() -> None:
    async with opened(GONE) as it:
        title, _, rest = it.text_of("#state").partition("\n\n")
        assert title == "what holds it was not found out: Tensor 5 is gone."
        assert rest == "Look for another one. Press r to search again."
    async with opened(OSError("broken pipe")) as it:
        assert "broken pipe" in it.text_of("#state")
    async with opened(ValueError("ours")) as it:
        assert "internal error: ValueError('ours')" in it.text_of("#state")
    async with opened(missing="a recording holds no objects") as it:
        told = it.text_of("#state")
        assert told == "what holds a tensor cannot be found here\n\na recording holds no objects"
        assert it.source.asked == []


async def test_when_the_source_is_lost_what_was_found_stays() -> None:
    async with opened() as it:
        await it.give(Ended("the process was killed by signal 9 (SIGKILL)", NOW + 1, expected=False))
        await it.press("r")
        assert "this is the last that was found" in it.it.notes()
        assert len(it.rows()) > 10 and len(it.source.asked) == 1
        await it.press("escape", "h")
        await it.at(HoldersScreen)
        await it.settled()
        assert "what holds it can no longer be found" in it.text_of("#state")
        assert "SIGKILL" in it.text_of("#state")


async def test_a_source_that_ends_while_it_is_asked_gives_the_reason() -> None:
    async with opened(TensortuiError("Process 7 gives no more samples: it ended.", "x"), wait=False) as it:
        await it.give(Ended("it ended", NOW))
        it.source.may.set()
        await it.settled()
        assert "Process 7 gives no more samples" in it.text_of("#state")


async def test_a_chain_is_copied_as_an_expression() -> None:
    async with opened() as it:
        copied: list[str] = []
        it.app.copy_to_clipboard = copied.append  # type: ignore[method-assign]
        await it.press("y", "j", "j", "y")
        assert copied == ["trainer.logs['val_logits'][3]", "trainer.logs"]


async def test_from_the_layout_and_the_graph_it_comes_back_there() -> None:
    sample, graph, loss = training_graph()
    for key, screen in (("2", LayoutScreen), ("3", GraphScreen)):
        source = WithHolders(sample, answer=Holders(1, CHAINS))
        source.graph = WithGraph(sample, graph=graph).graph  # type: ignore[method-assign]
        async with driven(sample, source=source, size=MIDDLE) as driving:
            assert driving.tree.go_to(loss)
            await driving.press(key)
            it = Opened(driving, source)
            await it.at(screen)
            if key == "3":
                graph_screen = driving.app.screen
                assert isinstance(graph_screen, GraphScreen)
                await it.until(lambda one=graph_screen: not one.reading.under_way)  # type: ignore[misc]
                await it.pilot.pause()
                await it.press("g")
            await it.press("H")
            await it.at(HoldersScreen)
            await it.settled()
            assert [asked for asked, _ in source.asked] == [loss]
            await it.press("escape")
            await it.at(screen)
            if key == "3":  # of the saved tensor under the cursor
                await it.press("n", "H")
                await it.at(HoldersScreen)
                assert it.text_of("#head").startswith(" h @ forward() model.py:61")
                await it.press("1")
                await it.at(TensorsScreen)


async def test_without_a_tensor_one_is_asked_for() -> None:
    sample, found, _ = leak()
    async with driven(sample, source=WithHolders(sample, answer=found)) as it:
        await it.press("b", "g", "h")
        assert isinstance(it.app.screen, TensorsScreen)
        assert "Select a tensor first" in it.notes()


async def test_hostile_labels_are_shown_as_text() -> None:
    steps = chain("global [bold red]x[/]", "key ['\x1b[2J\n\u202e\ud800']", f"index {'[0]' * 200}")
    for ascii_only in (False, True):
        async with opened(Holders(4, (steps,)), ascii_only=ascii_only, size=MIDDLE) as it:
            text = "\n".join([*it.rows(), it.text_of("#head"), it.text_of("#detail")])
            assert "[bold red]x[/]" in text and "\\e[2J\\n\\u202e\\ud800" in text
            assert not any(bad in text for bad in "\x1b\u202e\ud800")


async def test_in_ascii_everything_is() -> None:
    async with opened(ascii_only=True, size=MIDDLE) as it:
        all_ascii(it.app)
        await it.press("question_mark")
        all_ascii(it.app)
    assert in_ascii((MANUAL / "holders.md").read_text("utf-8")).isascii()


async def test_help_and_palette_know_its_keys() -> None:
    async with opened() as it:
        titles = [title for title, _, _ in Commands(it.screen)._actions()]
        assert {"Search again (r)", "More chains (m)", "Copy (y)"} <= set(titles)
        await it.press("question_mark")
        await it.at(HelpScreen)
        keys = str(it.app.screen.query_one("#keys", Static).content)
        assert "look for what holds it now" in keys and "the chains" in keys
        await it.press("escape", "escape")
        await it.at(TensorsScreen)
        titles = [title for title, _, _ in Commands(it.it.screen)._actions()]
        assert "Holders (h H)" in titles
