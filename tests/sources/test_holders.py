"""What keeps a tensor alive, as an agent says it: read within bounds, told on the way, given up in the target too."""

import asyncio
import random

import pytest

from tensortui.errors import TensortuiError
from tensortui.model import HOLDER_KINDS, Holders, HolderStep
from tensortui.sources.holders import MAX_STEPS, decode
from tensortui.sources.live import LiveSource
from tensortui.wire import messages
from tensortui.wire.messages import CHAINS_LIMIT

CHAIN = [["global", "trainer"], ["attribute", ".logs"], ["key", "['val']"], ["index", "[3]"]]
READ = tuple(HolderStep(kind, label) for kind, label in CHAIN)


def test_every_kind_is_told_in_the_protocol() -> None:
    text = (messages.__doc__ or "").partition("Kinds that begin")[2].partition("failed ")[0]
    words = {word.strip(",:;()") for word in text.split()}
    assert [kind for kind in HOLDER_KINDS if kind not in words] == []


def test_a_chain_is_read_from_its_root() -> None:
    found = decode(
        {"tensor": 5, "chains": [CHAIN], "reasons": ["Frames of other threads are skipped."], "complete": True}
    )
    assert found == Holders(5, (READ,), ("Frames of other threads are skipped.",), True)


@pytest.mark.parametrize(
    "chain", [None, 7, "global", {}, [], [[]], [["global"]], [["global", 3]], [[3, "x"]], [CHAIN[0], "junk"], [None]]
)
def test_a_chain_that_is_none_is_left_out_and_said_to_be(chain) -> None:
    found = decode({"tensor": 5, "chains": [chain, CHAIN], "complete": True})
    assert found.chains == (READ,)
    assert not found.complete
    assert found.reasons[0].startswith("Not every chain could be taken over")


def test_what_is_too_much_is_left_out_and_said_to_be() -> None:
    found = decode({"tensor": 5, "chains": [CHAIN] * (CHAINS_LIMIT + 1), "complete": True})
    assert (len(found.chains), found.complete, len(found.reasons)) == (CHAINS_LIMIT, False, 1)
    found = decode({"tensor": 5, "chains": [CHAIN * MAX_STEPS], "complete": True})
    assert ([len(chain) for chain in found.chains], found.complete) == ([MAX_STEPS], False)


def test_a_label_is_bounded_and_can_be_encoded_and_a_new_kind_is_an_object() -> None:
    chain = [["novel", "x" * 100_000], ["key", "\ud800\u202e"], ["index", ""]]
    (read,) = decode({"tensor": 5, "chains": [chain]}).chains
    assert [step.kind for step in read] == ["object", "key", "index"]
    assert len(read[0].label) < 10_000
    assert "".join(step.label for step in read).encode("utf-8")
    assert read[2].label == "?"


def test_anything_at_all_can_be_read() -> None:
    rng = random.Random(3)
    parts = [None, True, -1, 1 << 80, 0.5, "x", [], {}, "global", ["global", "x"], [["global", "x"]]]
    for _ in range(3000):
        header = {key: rng.choice([rng.choice(parts), [rng.choice(parts) for _ in range(rng.randint(0, 3))]])
                  for key in ("tensor", "chains", "reasons", "complete")}  # fmt: skip
        found = decode(header)
        assert all(step.kind in HOLDER_KINDS for chain in found.chains for step in chain)
        assert all(found.chains)


async def test_the_way_is_told_and_then_the_answer(agent) -> None:
    async def script(peer):
        await peer.welcome()
        asked = await peer.expect("holders")
        assert (asked["tensor"], asked["limit"]) == (5, 3)
        await peer.send({"t": "progress", "request": "of somebody else", "text": "no"})
        for text in ("searching level 1", 7, "", "searching level 2, 412 MiB"):
            await peer.send({"t": "progress", "request": asked["request"], "text": text})
        await peer.send({"t": "holders", "request": asked["request"], "tensor": 5, "chains": [CHAIN], "complete": True})
        asked = await peer.expect("holders")
        gone = {"t": "failed", "request": asked["request"], "cause": "Tensor 6 is gone.", "next_step": "Look again."}
        await peer.send(gone)

    source = await LiveSource.connect(await agent(script), interval=None)
    said: list[str] = []
    assert (await source.holders(5, limit=3, progress=said.append)).chains == (READ,)
    assert said == ["searching level 1", "searching level 2, 412 MiB"]
    with pytest.raises(TensortuiError) as caught:
        await source.holders(6)
    assert caught.value.cause == "Tensor 6 is gone."
    await source.close()


async def test_what_is_cancelled_is_given_up_in_the_target(agent) -> None:
    asked = asyncio.get_running_loop().create_future()
    given_up = asyncio.get_running_loop().create_future()

    async def script(peer):
        await peer.welcome()
        asked.set_result(await peer.expect("holders"))
        given_up.set_result(await peer.receive())
        await peer.send({"t": "holders", "request": asked.result()["request"], "tensor": 5, "chains": []})  # too late
        refresh = await peer.expect("refresh")
        await peer.sample(request=refresh["request"])

    source = await LiveSource.connect(await agent(script), interval=None)
    search = asyncio.create_task(source.holders(5))
    await asyncio.wait_for(asyncio.shield(asked), 10)
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert await asyncio.wait_for(given_up, 10) == {"t": "cancel", "request": asked.result()["request"]}
    assert await asyncio.wait_for(source.refresh(), 10) is source.latest  # and goes on being of use
    await source.close()


async def test_a_search_ends_with_the_connection(agent) -> None:
    async def script(peer):
        await peer.welcome()
        await peer.expect("holders")
        await peer.hang_up()

    source = await LiveSource.connect(await agent(script), interval=None)
    with pytest.raises(TensortuiError, match="gives no more samples"):
        await asyncio.wait_for(source.holders(5), 10)
    await source.close()


async def test_closing_right_after_a_search_was_given_up_leaves_nothing_behind(agent) -> None:
    async def script(peer):
        await peer.welcome()
        await peer.expect("holders")

    source = await LiveSource.connect(await agent(script), interval=None)
    search = asyncio.create_task(source.holders(5))
    await asyncio.sleep(0)
    search.cancel()
    await asyncio.gather(search, return_exceptions=True)
    await source.close()
    assert [task for task in asyncio.all_tasks() if "give_up" in repr(task.get_coro())] == []
