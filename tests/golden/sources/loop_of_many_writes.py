import torch

w = torch.ones(4, requires_grad=True)
state = torch.zeros(4)
total = torch.zeros(())
for step in range(12):
    out = state * w
    if step < 3:
        total = total + out.sum()
    state += 1
total.backward()
