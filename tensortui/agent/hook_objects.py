"""Objects of C++ that hold the hooks of a tensor or of a node, told by the name that the compiler gave their class.

The first word of such an object leads to the table of its methods, and what lies before that to the name. All of it is
read from memory: where an object is gone, no name comes.
"""

from array import array
from typing import List

from tensortui.agent.memory import HIGHEST, LOWEST, WORD, Memory, is_pointer

LONGEST = 80  # bytes of a name
NODE_WORDS = 40  # of a node, in which its lists of hooks are
MOST_HOOKS = 32  # objects in one such list
OF_TENSOR, OF_NODE = "hook of a tensor", "hook of a node"
_CLASSES = (
    (b"PyFunctionTensorPreHook", OF_TENSOR),
    (b"PyFunctionTensorPostAccGradHooks", OF_TENSOR),
    (b"PyFunctionPreHook", OF_NODE),
    (b"PyFunctionPostHook", OF_NODE),
)


def hook_object(memory: Memory, at: int) -> str:
    """Return what the object of C++ at `at` is, which holds a dictionary of hooks; "" where it is nothing of that."""
    info = memory.word(memory.word(at) - WORD)
    name = memory.word(info + WORD)
    if not LOWEST <= name < HIGHEST:
        return ""
    text = array("B", bytes(LONGEST))
    got = memory.read(array("Q", [name, LONGEST]), text)
    said = text.tobytes()[: max(got, 0)].partition(b"\0")[0]
    return next((what for one, what in _CLASSES if said.startswith(b"N5torch8autograd") and one in said), "")


def hooks_at(memory: Memory, node: int) -> List[int]:
    """Return the words of the lists that the C++ node at `node` has: where its hooks lie, among others."""
    found: List[int] = []
    words = memory.words_up_to(node, NODE_WORDS)
    for first, end, most in zip(words, words[1:], words[2:]):
        if first < end <= most and not (end - first) % WORD and end - first <= MOST_HOOKS * WORD and is_pointer(first):
            found += memory.words(first, (end - first) // WORD)
    return found
