"""What every layer of a PyTorch model gives and gets, for bench/first_divergence.

    model.eval()
    recorder = Recorder(model)
    loss(model(x)).backward()
    recorder.save("torch.safetensors")

Layers are modules with parameters of their own and no modules below them. The entries are
output/NUMBER/MODULE, gradient/NUMBER/MODULE (of the output) and weight/NUMBER/PARAMETER, numbered
in the order in which they come (core/tools/activation_recorder.h writes the same of tern's models).
"""
from safetensors.torch import save_file


def tensor_of(output):
    """The first tensor of what a module gives."""
    while isinstance(output, (tuple, list)):
        output = output[0]
    return output


class Recorder:
    def __init__(self, model):
        self.entries, self.counts = {}, {"output": 0, "gradient": 0, "weight": 0}
        for name, module in model.named_modules():
            if any(True for _ in module.children()) or not list(module.parameters(recurse=False)):
                continue
            module.register_forward_hook(lambda m, x, y, n=name: self.output(n, tensor_of(y)))
        for name, p in model.named_parameters():
            p.register_post_accumulate_grad_hook(lambda p, n=name: self.add("weight", n, p.grad))

    def add(self, kind, name, value):
        self.entries[f"{kind}/{self.counts[kind]:06}/{name}"] = value.detach().clone().contiguous()
        self.counts[kind] += 1

    def output(self, name, y):
        self.add("output", name, y)
        if y.requires_grad:
            y.register_hook(lambda g: self.add("gradient", name, g))

    def save(self, path):
        save_file(self.entries, path)
