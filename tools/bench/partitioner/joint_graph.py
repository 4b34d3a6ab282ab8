"""Joint graphs of PyTorch: a module's outputs and gradients as one fx graph, and that graph as Kiln's text (.kir)."""

import operator

import torch
from torch._functorch.aot_autograd import aot_function
from torch._functorch.partitioners import default_partition

DTYPES = {
    torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64", torch.complex64: "c64",
}  # fmt: skip


def trace_joint(module, arguments, decompositions=None):
    """(joint graph module, number of forward outputs, positions of the parameters and buffers)."""
    names, state = zip(*module.named_parameters(), *module.named_buffers())
    found = []

    def call(*tensors):
        return torch.func.functional_call(module, dict(zip(names, tensors)), tensors[len(names) :])

    def keep(joint, joint_inputs, *, num_fwd_outputs, **rest):
        found.append((joint, num_fwd_outputs))
        return default_partition(joint, joint_inputs, num_fwd_outputs=num_fwd_outputs, **rest)

    aot_function(
        call, fw_compiler=lambda graph, _: graph, partition_fn=keep, decompositions=decompositions, num_params_buffers=len(names)
    )(*state, *arguments)
    return *found[0], list(range(len(names)))


def type_text(value):
    if isinstance(value, int):
        return f"int({value})"
    text = f"{DTYPES[value.dtype]}[{', '.join(map(str, value.shape))}]"
    if not value.is_contiguous():
        text += "{" + ", ".join(map(str, value.stride())) + "}"
    return text + (f"@{value.storage_offset()}" if value.storage_offset() else "")


def argument_text(value, kind):
    if value is None:
        return "none"
    if isinstance(value, torch.fx.Node):
        return f"%{value.name}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(argument_text(item, kind) for item in value) + "]"
    if isinstance(value, torch.dtype):
        return DTYPES[value]
    if isinstance(value, float) or (isinstance(value, int) and kind == "float"):
        return repr(float(value))
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (torch.layout, torch.memory_format)):
        return str(value).removeprefix("torch.")
    if isinstance(value, torch.device):
        return str(value)
    return '"' + str(value) + '"'


def arguments_text(node):
    """Every argument of the schema, in its order: given ones and defaults."""
    texts = []
    for position, argument in enumerate(node.target._schema.arguments):
        value = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name, argument.default_value)
        texts.append(argument_text(value, str(argument.type)))
    return ", ".join(texts)


def target_text(node):
    """The operator. PyTorch lets a number stand for a tensor (`add.Tensor(x, 1)`); here that is another overload."""
    for value, argument in zip(node.args, node.target._schema.arguments):
        if isinstance(value, (int, float)) and str(argument.type) == "Tensor":
            return f"{node.target.overloadpacket}.Scalar"
    return str(node.target)


def results_of(node):
    """The fx nodes that stand for each result: the node itself, or what takes an element of it; None where nothing does."""
    if not isinstance(node.meta["val"], (list, tuple)):
        return [node]
    taken = {user.args[1]: user for user in node.users if user.target is operator.getitem}
    return [taken.get(i) for i in range(len(node.meta["val"]))]


def storage_of(node):
    """What identifies the memory of a value; None for what is no tensor."""
    value = node.meta.get("val")
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def draws(node):
    """Whether it draws random numbers. Attention does only if it drops something."""
    names = [argument.name for argument in node.target._schema.arguments]
    if "dropout_p" in names and names.index("dropout_p") < len(node.args):
        return node.args[names.index("dropout_p")] > 0
    return torch.Tag.nondeterministic_seeded in node.target.tags and "dropout_p" not in names


def flags_text(node, is_backward):
    arguments = [(i, storage_of(argument)) for i, argument in enumerate(node.args) if isinstance(argument, torch.fx.Node)]
    views = [
        f"{result}:{i}"
        for result, made in enumerate(results_of(node))
        for i, storage in arguments
        if made is not None and storage is not None and storage_of(made) == storage
    ]
    aliases = [argument.alias_info for argument in node.target._schema.arguments]
    writes = [str(i) for i, alias in enumerate(aliases) if alias and alias.is_write]
    text = f" mutates({', '.join(writes)})" if writes else ""
    text += f" view({', '.join(views)})" if views else ""
    text += " random" if draws(node) else ""
    return text + (" backward" if is_backward else "")


def forward_nodes(outputs):
    needed, queue = set(), [node for node in outputs if node is not None]
    while queue:
        node = queue.pop()
        if node not in needed:
            needed.add(node)
            queue += node.all_input_nodes
    return needed


def to_kir(joint, forward_outputs, static, name="joint"):
    graph = joint.graph
    outputs = list(graph.find_nodes(op="output")[0].args[0])
    forward = forward_nodes(outputs[:forward_outputs])
    lines = []
    for position, node in enumerate(graph.find_nodes(op="placeholder")):
        kind = "tangent" if "tangent" in node.name else "parameter" if position in static else "user"
        lines.append(f"input %{node.name}: {type_text(node.meta['val'])} {kind}")
    for node in graph.nodes:
        if node.op == "get_attr" or (node.op == "call_function" and not isinstance(node.target, torch._ops.OpOverload)):
            if node.target is not operator.getitem:
                raise ValueError(f"{node.name}: {node.target} is no operator")
            continue
        if node.op != "call_function":
            continue
        results = [f"%{one.name}: {type_text(one.meta['val'])}" if one is not None else "none" for one in results_of(node)]
        flags = flags_text(node, node not in forward)
        lines.append(f"{', '.join(results)} = {target_text(node)}({arguments_text(node)}){flags}")
    for position, node in enumerate(outputs):
        text = "none" if node is None else f"%{node.name}"
        kind = "user" if position < forward_outputs else f"gradient {position - forward_outputs}"
        lines.append(f"output {text} {kind}")
    return f"graph {name} {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
