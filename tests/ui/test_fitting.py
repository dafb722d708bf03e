"""The columns of the table fit what is shown, and stay where they are while samples come."""

from __future__ import annotations

from driving import driven
from ui_data import Build, after, tensor


async def test_names_have_the_room_that_columns_leave_and_the_table_does_not_jump_with_samples() -> None:
    b = Build()
    for kind in ("exp_avg", "exp_avg_sq"):
        for block in range(3):
            for part in ("query", "value"):
                b.add(f"{kind} of model.encoder.blocks.{block}.attention.{part}.weight", (64, 64), category="optimizer")
    sample = b.sample()
    made = tensor(900, None, ["out"], (64, 64), grad_fn="AddmmBackward0")
    async with driven(sample, size=(160, 45)) as it:
        names = [line[it.lines()[0].index("name") :].split("(")[0] for line in it.lines()[1:13]]
        assert len(set(names)) == 12 and not any("…" in name for name in names)
        narrow = it.lines()[0]
        sample = after(sample, new=[made])
        await it.give(sample)
        wide = it.lines()[0]
        assert wide.index("shape") < narrow.index("shape") and "AddmmBackward0" in "".join(it.lines())
        await it.give(after(sample, gone=[900], seconds=9))
        it.clock.now += 9
        it.screen.tick()
        assert it.lines()[0] == wide
        await it.press("b", "b", "b", "b")
        assert it.lines()[0] == narrow
