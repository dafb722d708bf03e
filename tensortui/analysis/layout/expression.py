"""Operations as they are written in PyTorch: "reshape(2, -1)", "x.t().contiguous()", "to(torch.bfloat16)"."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from tensortui.analysis.layout.place import LayoutError

EXAMPLES = "view(-1), reshape(2, -1), permute(0, 2, 1), contiguous(), to(bfloat16), to(cuda:0)"
LONGEST = 300
_DEVICE = re.compile(r"(?<![\w.'\":])(?:cpu|cuda|mps|xpu|meta|hpu)(?::\d+)?(?![\w'\":(.])")

Value = int | str | bool | tuple["Value", ...] | None


@dataclass(frozen=True, slots=True)
class Call:
    """One operation with its arguments. Names of dtypes and the like are strings, without "torch."."""

    name: str
    args: tuple[Value, ...] = ()
    kwargs: tuple[tuple[str, Value], ...] = ()

    def __str__(self) -> str:
        if self.name in PROPERTIES:
            return self.name
        words = [_text(value) for value in self.args] + [f"{key}={_text(value)}" for key, value in self.kwargs]
        return f"{self.name}({', '.join(words)})"


def _text(value: Value) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    return str(value)


def parse(text: str) -> tuple[Call, ...]:
    """The operations of a text in the order they are done; what they are called on is left out, as is `torch.`."""
    text = text.strip()
    if not text or len(text) > LONGEST:
        raise LayoutError(f"type an operation, as {EXAMPLES}")
    try:
        node = ast.parse(_DEVICE.sub(r"'\g<0>'", text), mode="eval").body
        calls = _calls(node)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, LayoutError):
            raise
        raise LayoutError(f"{text!r} is not understood: write {EXAMPLES}") from None
    if not calls:
        raise LayoutError(f"{text!r} does nothing: write {EXAMPLES}")
    return tuple(calls)


def _calls(node: ast.expr) -> list[Call]:
    if isinstance(node, ast.Call):
        args = tuple(map(_value, node.args))
        kwargs = tuple((word.arg or "", _value(word.value)) for word in node.keywords)
        if isinstance(node.func, ast.Name):
            return [Call(node.func.id, args, kwargs)]
        if isinstance(node.func, ast.Attribute):
            return [*_before(node.func.value), Call(node.func.attr, args, kwargs)]
    elif isinstance(node, ast.Attribute):
        return [*_before(node.value), Call(node.attr)]
    elif isinstance(node, ast.Name):
        return [Call(node.id)]
    raise LayoutError(f"only operations are told, as {EXAMPLES}")


def _before(node: ast.expr) -> list[Call]:
    """What is done first: nothing where a name, an attribute or an item of one stands there."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Attribute) and node.attr in PROPERTIES:
            return [*_before(node.value), Call(node.attr)]
        node = node.value
        if isinstance(node, ast.Call):
            return _calls(node)
    return _calls(node) if isinstance(node, ast.Call) else []


PROPERTIES = ("T", "mT", "H", "mH")


def _value(node: ast.expr) -> Value:
    if isinstance(node, (ast.Tuple, ast.List)):
        return tuple(map(_value, node.elts))
    if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, (int, str))):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = _value(node.operand)
        if isinstance(inner, int) and not isinstance(inner, bool):
            return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch":
        return node.attr
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.FloorDiv)):
        return _product(_value(node.left), node.op, _value(node.right))
    raise LayoutError(f"{ast.unparse(node)!r} is no number, dtype or device: write {EXAMPLES}")


def _product(left: Value, operator: ast.operator, right: Value) -> int:
    if not isinstance(left, int) or not isinstance(right, int) or max(abs(left), abs(right)) > 1 << 62:
        raise LayoutError("only whole numbers are multiplied")
    if isinstance(operator, ast.Mult):
        return left * right
    if not right:
        raise LayoutError("division by 0")
    return left // right
