import torch
from torch.func import functional_call

torch.manual_seed(0)
head = torch.nn.Linear(2, 1)
x = torch.randn(4, 2)
fast = dict(head.named_parameters())
for _ in range(2):
    loss = functional_call(head, fast, (x,)).square().mean()
    grads = torch.autograd.grad(loss, tuple(fast.values()), create_graph=True)
    for name, g in zip(fast, grads, strict=True):
        fast[name].sub_(0.1 * g)
functional_call(head, fast, (x,)).square().mean().backward()
print(head.weight.grad)
