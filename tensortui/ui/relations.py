"""Which tensor is a view of which, in words: what the table and the details say of tensors on one storage."""

from __future__ import annotations

from tensortui.model import Tensor
from tensortui.ui.columns import dims_text
from tensortui.ui.rows import Rows

MOST_MATES = 256  # on a storage with more tensors than this nobody looks for the base of one

FLAGS = {
    "view": "shares the memory of another tensor",
    "base-only": "only its views keep it",
    "transposed": "its dimensions are in another order than in memory",
    "expanded": "repeats elements by strides of 0",
    "overlapping": "several elements lie on the same address",
    "conj": "conjugated when it is read",
    "neg": "negated when it is read",
    "inference": "made in inference mode, autograd refuses it",
    "quantized": "elements stand for scaled integers",
    "nested": "a list of tensors of unlike shapes",
    "sparse": "only some elements are stored",
    "meta": "a shape without memory",
    "fake": "stands for a tensor while code is traced",
    "subclass": "a class of the program's own",
}


def mates_of(tensor: Tensor, rows: Rows) -> list[Tensor]:
    """The other tensors of its storage; none where there are very many."""
    account = rows.accounts.account(tensor.storage) if tensor.storage is not None else None
    if account is None or len(account.tensors) > MOST_MATES:
        return []
    return [mate for tid in account.tensors if tid != tensor.id and (mate := rows.tensor(tid)) is not None]


def relation(tensor: Tensor, rows: Rows) -> str:
    """ "view of weight", "base held only by row"; "" where there is nothing to say, or it is not certain."""
    mates = mates_of(tensor, rows)
    if "view" in tensor.flags:
        # A storage may hold tensors that are no views of each other (an nn.Parameter over another tensor).
        bases = [mate for mate in mates if "view" not in mate.flags]
        if len(bases) != 1:
            return ""
        (base,) = bases
        return f"view of {base.names[0] if base.names else dims_text(base.shape)}"
    views = [mate for mate in mates if "view" in mate.flags]
    alone = "base-only" in tensor.flags
    if not views or (len(views) < len(mates) and not alone):
        return ""
    if len(views) > 1:
        return f"base {'held only by its' if alone else 'of'} {len(views)} views"
    (view,) = views
    name = view.names[0].partition(" @ ")[0] if view.names else f"#{view.id}"
    return f"base {'held only by' if alone else 'of'} {name}"
