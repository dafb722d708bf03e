"""The place of a torch tensor, as a source would give it."""

from tensortui.analysis.layout import Place


def place_of(tensor):
    lazy = ("conj",) * tensor.is_conj() + ("neg",) * tensor.is_neg()
    dtype = str(tensor.dtype).removeprefix("torch.")
    room = tensor.untyped_storage().nbytes()
    strides = tuple(tensor.stride())
    return Place(tuple(tensor.shape), strides, tensor.storage_offset(), dtype, str(tensor.device), lazy, room)
