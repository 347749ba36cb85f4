import torch

torch.manual_seed(0)
w1 = torch.randn(3, 1, requires_grad=True)
w2 = torch.randn(1, 1, requires_grad=True)


class Tower(torch.nn.Module):
    def forward(self, x):
        d = torch.matmul(x, w1)
        # the second product keeps its first factor for the gradient of w2
        f = torch.matmul(d, w2)

        d[:] = 0
        return f


x = torch.randn(1, 3)
loss = Tower()(x).sum()
loss.backward()
