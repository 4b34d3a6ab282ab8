"""What fx graphs keep in memory, by the rules of Kiln's simulate_memory: bytes of what the two graphs make, each storage once,
freed after its last use; inputs and tangents are not counted."""

import operator

import torch

from joint_graph import draws


def outputs_of(module):
    return list(module.graph.find_nodes(op="output")[0].args[0])


def tensors_of(node):
    value = node.meta.get("val")
    return [one for one in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(one, torch.Tensor)]


def storages_of(node):
    """The memory that a value lives in, as {identity: bytes}."""
    return {one.untyped_storage()._cdata: one.untyped_storage().nbytes() for one in tensors_of(node)}


def kept_bytes(joint, names):
    """Bytes of what the values `names` of a joint graph hold beyond its inputs."""
    nodes = {node.name: node for node in joint.nodes}
    inputs = {storage for node in joint.find_nodes(op="placeholder") for storage in storages_of(node)}
    kept = {}
    for name in names:
        kept.update(storages_of(nodes[name]))
    return sum(size for storage, size in kept.items() if storage not in inputs)


def peak_of(graph, held):
    """The most bytes alive while `graph` runs, `held` ({identity: bytes}) from the start; other inputs count nothing."""
    nodes = [node for node in graph.nodes if node.op == "call_function" and node.target is not operator.getitem]
    inputs = {storage for node in graph.find_nodes(op="placeholder") for storage in storages_of(node)}
    used = lambda node: {storage for operand in node.all_input_nodes for storage in storages_of(operand)}
    last = {}
    for position, node in enumerate(nodes):
        last.update(dict.fromkeys(used(node) | set(storages_of(node)), position))
    for node in graph.find_nodes(op="output")[0].all_input_nodes:
        last.update(dict.fromkeys(storages_of(node), len(nodes)))
    alive, now = dict(held), sum(held.values())
    peak = now
    for position, node in enumerate(nodes):
        for storage, size in storages_of(node).items():
            if storage not in alive and storage not in inputs:
                alive[storage] = size
                now += size
        peak = max(peak, now)
        for storage in used(node) | set(storages_of(node)):
            if last[storage] <= position:
                now -= alive.pop(storage, 0)
    return peak


def peak_bytes(forward, backward, forward_outputs):
    """The peak of a training step: the larger of the forward's and the backward's."""
    inputs = {storage for node in forward.graph.find_nodes(op="placeholder") for storage in storages_of(node)}
    saved = {}
    for node in outputs_of(forward)[forward_outputs:]:
        if node is not None:
            saved.update(storages_of(node))
    held = {storage: size for storage, size in saved.items() if storage not in inputs}
    return max(peak_of(forward.graph, {}), peak_of(backward.graph, held))


def draws_again(forward, backward):
    """How many random operators of the forward the backward runs again, without a state to start from."""
    drawn = lambda graph: {node.name for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload) and draws(node)}
    return len(drawn(forward.graph) & drawn(backward.graph))


def picture(sweeps):
    """One small diagram a model: peak over budget, Kiln and PyTorch."""
    width, height, body = 300, 150, []
    for index, one in enumerate(sweeps):
        left, top = 60 + (index % 2) * (width + 80), 40 + (index // 2) * (height + 70)
        rows, most = one["rows"], max(max(row["kiln"], row["pytorch"]) for row in one["rows"])
        at = lambda row, who: (left + width * (1 - row["budget"]), top + height * (1 - row[who] / most))
        body.append(f'<text x="{left}" y="{top - 10}" class="title">{one["model"]}</text>')
        body.append(f'<rect x="{left}" y="{top}" width="{width}" height="{height}" class="frame"/>')
        body.append(f'<text x="{left - 6}" y="{top + 12}" text-anchor="end">{most / 1e9:.1f} GB</text>')
        body.append(f'<text x="{left - 6}" y="{top + height}" text-anchor="end">0</text>')
        body.append(f'<text x="{left}" y="{top + height + 16}">budget 1</text>')
        body.append(f'<text x="{left + width}" y="{top + height + 16}" text-anchor="end">0</text>')
        for who in ("pytorch", "kiln"):
            points = " ".join(f"{x:.0f},{y:.0f}" for x, y in (at(row, who) for row in rows))
            body.append(f'<polyline points="{points}" class="{who}"/>')
    bottom = 40 + (len(sweeps) + 1) // 2 * (height + 70)
    body.append(f'<text x="60" y="{bottom - 8}"><tspan class="ours">&#9632;</tspan> Kiln   <tspan class="theirs">&#9632;</tspan> PyTorch</text>')
    style = (
        "text{font:12px sans-serif;fill:#333}.title{font-weight:bold;font-size:14px}.frame{fill:none;stroke:#ddd}"
        "polyline{fill:none;stroke-width:3;stroke-linejoin:round}.kiln{stroke:#c4501b}.pytorch{stroke:#b9b4ab}"
        "tspan.ours{fill:#c4501b}tspan.theirs{fill:#b9b4ab}"
    )
    size = f'width="780" height="{bottom + 10}" viewBox="0 0 780 {bottom + 10}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>'
        f'<rect width="100%" height="100%" fill="#fffdf9"/>{"".join(body)}</svg>\n'
    )
