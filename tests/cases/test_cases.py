"""The document of each program says exactly what is known about it."""

import math
import unicodedata

from tensortui.analysis.text import safe


def named(document, name):
    """The one tensor that has this name."""
    (tensor,) = [tensor for tensor in document["tensors"] if name in tensor["names"]]
    return tensor


def storage_of(document, tensor):
    (storage,) = [storage for storage in document["storages"] if storage["id"] == tensor["storage"]]
    assert tensor["id"] in storage["tensors"]
    return storage


def finding(document, kind):
    """The one finding of this kind."""
    (found,) = [finding for finding in document["findings"] if finding["kind"] == kind]
    return found


def kinds(document):
    return [finding["kind"] for finding in document["findings"]]


def complaints(document):
    return [finding for finding in document["findings"] if finding["severity"] != "note"]


def saved_of(document, node_name):
    return [saved for node in document["graph"]["nodes"] if node["name"] == node_name for saved in node["saved"]]


def check_sums(document):
    """Totals count each storage once."""
    storages = document["storages"]
    total = sum(storage["bytes"] for storage in storages)
    totals = document["totals"]
    assert totals["tensors"] == len(document["tensors"])
    assert totals["storages"] == len(storages)
    assert totals["bytes"] == total
    for key in ("by_category", "by_device", "by_backing"):
        assert sum(totals[key].values()) == total


def test_02_list_of_outputs(case):
    before = case.document()
    outputs = [named(before, f"trainer.logs['val_logits'][{k}]") for k in range(5)]
    assert [tensor["shape"] for tensor in outputs] == [[256, 256]] * 5
    assert sum(storage_of(before, tensor)["bytes"] for tensor in outputs) == 1_310_720
    assert before["totals"]["tensors"] == 5
    assert before["totals"]["bytes"] == 1_310_720
    assert case.tell() == "6"
    after = case.document()
    assert named(after, "trainer.logs['val_logits'][5]")["shape"] == [256, 256]
    assert after["totals"]["tensors"] - before["totals"]["tensors"] == 1
    assert after["totals"]["bytes"] - before["totals"]["bytes"] == 262_144
    check_sums(after)


def test_07_small_view_huge_storage(case):
    document = case.document()
    row = named(document, "row")
    assert (row["bytes"], row["offset"], row["contiguous"]) == (16_384, 20_480, True)
    assert "view" in row["flags"]
    assert "base-only" not in row["flags"]
    storage = storage_of(document, row)
    assert (storage["bytes"], storage["live_bytes"]) == (67_108_864, 16_384)
    (base,) = [tensor for tensor in document["tensors"] if "base-only" in tensor["flags"]]
    assert (base["names"], base["shape"], base["storage"]) == ([], [4096, 4096], storage["id"])
    found = finding(document, "retained-storage")
    assert found["storages"] == [storage["id"]]
    assert (found["evidence"]["live_bytes"], found["evidence"]["bytes"]) == (16_384, 67_108_864)
    check_sums(document)


def test_09_inplace_on_saved(case):
    document = case.document(graph=True)
    w = named(document, "w")
    assert w["version"] == 1
    (saved,) = saved_of(document, "ExpBackward0")
    assert saved["name"] == "result"
    assert (saved["version_saved"], saved["version"], saved["stale"], saved["hook"]) == (0, 1, True, False)
    found = finding(document, "stale-save")
    assert found["severity"] == "error"
    assert (found["evidence"]["version_saved"], found["evidence"]["version"]) == (0, 1)
    check_sums(document)


def test_12_noncontiguous_hidden_copy(case):
    document = case.document()
    x, xt, same, flat, xtc, heads = (named(document, name) for name in ("x", "xt", "same", "flat", "xtc", "heads"))
    assert (xt["strides"], xt["contiguous"]) == ([1, 32], False)
    assert "transposed" in xt["flags"]
    assert named(document, "xc")["id"] == x["id"]
    assert {x["storage"], same["storage"]} == {xt["storage"]}
    copies = [storage_of(document, flat), storage_of(document, xtc)]
    assert len({x["storage"], *(storage["id"] for storage in copies)}) == 3
    assert [storage["bytes"] for storage in copies] == [8192, 8192]
    assert (heads["shape"], heads["strides"]) == ([2, 16, 8, 4], [512, 4, 64, 1])
    assert complaints(document) == []
    check_sums(document)


def test_14_expand_stride0(case):
    document = case.document()
    mask, eye, scalar = (named(document, name) for name in ("mask", "eye", "scalar"))
    assert (mask["bytes"], mask["distinct_bytes"], mask["strides"]) == (268_435_456, 4096, [0, 1])
    assert "expanded" in mask["flags"]
    assert (eye["strides"], storage_of(document, eye)["bytes"]) == ([0, 4, 1], 64)
    assert (scalar["strides"], storage_of(document, scalar)["bytes"]) == ([0, 0], 4)
    assert complaints(document) == []
    check_sums(document)


def test_16_tied_and_fused_weights(case):
    document = case.document()
    tied = named(document, "lm.emb.weight")
    assert "lm.head.weight" in tied["names"]
    assert tied["bytes"] == 256_000
    parts = [named(document, f"lm.{name}") for name in "qkv"]
    assert [part["category"] for part in parts] == ["parameter"] * 3
    assert len({part["id"] for part in parts}) == 3
    assert [part["offset"] for part in parts] == [0, 4096, 8192]
    assert len({part["storage"] for part in parts}) == 1
    assert storage_of(document, parts[0])["bytes"] == 49_152
    assert finding(document, "tied")["tensors"] == [tied["id"]]
    assert document["totals"]["by_category"]["parameter"] == 305_152
    assert complaints(document) == []
    check_sums(document)


def test_18_freed_storage_resize0(case):
    document = case.document()
    full = named(document, "full")
    assert full["shape"] == [4096, 1024]
    storage = storage_of(document, full)
    assert (storage["bytes"], storage["backing"], storage["live_bytes"]) == (0, "none", 0)
    assert full["id"] in finding(document, "freed-storage")["tensors"]
    assert document["totals"]["bytes"] == 2048 * 512 * 4  # local_shard alone
    check_sums(document)


def test_20_checkpoint_unpack_side_effect(case):
    document = case.document(graph=True)
    saved = [saved for node in document["graph"]["nodes"] for saved in node["saved"]]
    assert any(one["hook"] for one in saved)
    assert all(one["version_saved"] is None for one in saved if one["hook"])
    tensors = {tensor["id"]: tensor for tensor in document["tensors"]}
    held = {tensors[one["tensor"]]["storage"] for one in saved if not one["hook"] and one["tensor"] is not None}
    storages = [storage for storage in document["storages"] if storage["id"] in held]
    assert [storage["bytes"] for storage in storages if storage["category"] != "parameter"] == [524_288] * 2
    assert case.tell() == "1"
    check_sums(document)


def test_26_adam_state_and_grads(case):
    document = case.document()
    assert document["totals"]["by_category"] == {
        "parameter": 4_004_000,
        "gradient": 4_004_000,
        "optimizer": 8_008_008,
    }
    assert named(document, "exp_avg of model.weight")["shape"] == [1000, 1000]
    assert named(document, "exp_avg_sq of model.bias")["shape"] == [1000]
    assert named(document, "model.weight")["version"] == 3
    assert complaints(document) == []
    check_sums(document)


def test_30_hostile_subclass(case):
    document = case.document(graph=True)
    spy = named(document, "spy")
    assert (spy["bytes"], spy["shape"], spy["type"].rpartition(".")[2]) == (4096, [1024], "Spy")
    assert "subclass" in spy["flags"]
    assert [tensor["names"] for tensor in document["tensors"] if "liar" in tensor["names"]] == []
    (base,) = (tensor for tensor in document["tensors"] if tensor["id"] != spy["id"])  # as_subclass made a view
    assert (base["storage"], base["flags"], base["names"]) == (spy["storage"], ["base-only"], [])
    assert case.tell() == "[]"
    _, said = case.close()
    assert said == ""


def test_33_observer_keeps_locals_alive(case):
    case.follow(0.1, 50, until="batch @ train()")  # frames were read while the local lived
    out, said = case.close()
    assert (out, said) == ("", "")


def test_35_hostile_names(case):
    document = case.document()
    by_count = {}
    for tensor in document["tensors"]:
        by_count.setdefault(math.prod(tensor["shape"]), []).append(tensor)
    assert sorted(by_count) == list(range(10, 23))
    for tensors in by_count.values():
        (tensor,) = tensors
        assert tensor["names"]
        for name in tensor["names"]:
            shown = safe(name)
            assert not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in shown)
            assert len(name) < 1000
    check_sums(document)


def test_39_saved_only_in_cpp(case):
    before = case.document(graph=True)
    hidden = only_cpp(before, 8_192_000)
    assert len(hidden) == 4
    assert [storage["category"] for storage in hidden] == ["saved"] * 4
    owners = {
        node["name"]
        for node in before["graph"]["nodes"]
        for saved in node["saved"]
        if saved["tensor"] in {tid for storage in hidden for tid in storage["tensors"]}
    }
    assert owners == {"LogSoftmaxBackward0", "NllLossBackward0"}
    found = finding(before, "graph-kept")
    assert found["severity"] == "warning"
    assert case.tell() == "5"
    after = case.document(graph=True)
    assert len(only_cpp(after, 8_192_000)) == 5
    assert after["totals"]["by_category"]["saved"] - before["totals"]["by_category"]["saved"] >= 8_192_000
    check_sums(after)


def only_cpp(document, size):
    """The storages of this size that no Python object holds."""
    python = {tensor["id"] for tensor in document["tensors"] if tensor["python"]}
    return [
        storage for storage in document["storages"] if storage["bytes"] == size and not python & set(storage["tensors"])
    ]
