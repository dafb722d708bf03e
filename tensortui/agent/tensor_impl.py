"""Where torch keeps things in the C++ object behind a tensor: learned from small tensors of our own, never assumed."""

from typing import Any, Iterator, Tuple

from tensortui.agent.memory import WORD, Memory

STORAGE = 2  # word of a dense C++ tensor that points to its storage
DATA, NBYTES = 2, 6  # words of a storage: the pointer to its memory, and its size
POINTERS = (2 * WORD, 3 * WORD)  # of a Python tensor, of which one leads to the C++ object
SOUGHT = 40  # words of a C++ object in which a pointer is looked for
NEAR = 12  # words of its autograd data: what comes later may belong to a neighbour

Pair = Tuple[Any, Any]  # a tensor and its gradient


def small(torch: Any) -> Any:
    """Return a tensor of 37 bytes of our own, made by torch itself: `torch.empty` may have been replaced."""
    return torch._C._VariableFunctions.empty(37, dtype=torch.uint8, device="cpu")


def with_gradient(torch: Any) -> Pair:
    """Return a leaf of one element of our own and its gradient, which was set as the program would."""
    empty = torch._C._VariableFunctions.empty
    tensor, gradient = empty(1, device="cpu", requires_grad=True), empty(1, device="cpu")
    base = getattr(torch._C, "TensorBase", None) or torch._C._TensorBase
    base.__dict__["grad"].__set__(tensor, gradient)
    return tensor, gradient


def routes(memory: Memory, tensor: Any, pointer: int, target: int) -> Iterator[Tuple[int, int, int]]:
    """Yield the offsets along which `target` is reached: to the C++ object, in it to its autograd data, in these.

    `pointer` is the first of them. A route found for one tensor must be tried on another: it may be a coincidence.
    """
    for place, word in enumerate(memory.words_up_to(memory.word(id(tensor) + pointer), SOUGHT)):
        for behind, found in enumerate(memory.words_up_to(word, NEAR)):
            if found == target:
                yield pointer, place * WORD, behind * WORD
