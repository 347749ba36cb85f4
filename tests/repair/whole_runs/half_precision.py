import torch

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
scale = torch.tensor([0.5, 1.5, 2.0])
for step in range(3):
    h = w.bfloat16().exp()
    h *= scale
    h.float().sum().backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        w.grad = None
    print(step, h.dtype, h.tolist())
