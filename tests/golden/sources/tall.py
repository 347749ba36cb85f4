import torch

w = torch.ones(3, requires_grad=True)
y = w.exp()
loss = torch.stack(
    [
        y.sum(),
        torch.nn.functional.mse_loss(
            y.tanh(),
            torch.zeros(3),
        ),
    ],
).sum()
y[
    0
] = 5
loss.backward()
