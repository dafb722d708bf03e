"""Keys one after the other: the next is handed out when the one before has had its whole effect.

A key goes to the widget that has the focus when it comes, and from there through the queues of its ancestors to the
application, which may move the focus. Keys that are typed meanwhile would still go to the old place.
"""

from __future__ import annotations

from collections import deque

from textual.events import Key
from textual.message import Message
from textual.message_pump import MessagePump


class Passed(Message):
    """Goes the way of the key before it; where it arrives, that key has been dealt with.

    It goes twice: the second time behind what the key made widgets, or a screen it opened, say in their turn.
    """

    def __init__(self, number: int, again: bool) -> None:
        super().__init__()
        self.number = number
        self.again = again


class Keys:
    """Holds keys back while one is under way, and while there is no screen yet that they could be meant for."""

    def __init__(self) -> None:
        """There is no screen yet: that counts as the key of number 0."""
        self._waiting: deque[Key] = deque()
        self._number = 0
        self._under_way = True

    def leaves(self, key: Key) -> bool:
        """Whether `key` is to quit what has no screen yet. A `q` behind other keys may be a part of what they type."""
        before = self._under_way and self._number == 0
        return before and (key.key in ("ctrl+q", "ctrl+c") or (key.key == "q" and not self._waiting))

    def hold(self, key: Key) -> bool:
        """Whether `key` has to wait for its turn; it is kept then."""
        if self._under_way:
            self._waiting.append(key)
        return self._under_way

    def follow(self, target: MessagePump) -> int:
        """A key was just handed to `target`: send the mark behind it. Returns its number."""
        self._number += 1
        self._under_way = target.post_message(Passed(self._number, again=True))
        return self._number

    def again(self, mark: Passed, target: MessagePump) -> bool:
        """Send the mark a second time, by way of what has the focus now; whether it went."""
        return mark.again and mark.number == self._number and target.post_message(Passed(mark.number, again=False))

    def over(self, number: int) -> Key | None:
        """The key of this number was dealt with: the next one, if there is one."""
        if not self._under_way or number != self._number:
            return None
        self._under_way = False
        return self._waiting.popleft() if self._waiting else None
