import torch
from torch import nn

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.score = nn.Linear(width, 1)

    def forward(self, words, padding):
        weights = self.score(words).squeeze(-1).softmax(dim=-1)
        weights[padding] = 0
        return (weights.unsqueeze(-1) * words).sum(dim=1)


attention, head = Attention(8), nn.Linear(8, 2)
optimizer = torch.optim.SGD([*attention.parameters(), *head.parameters()], lr=0.1)
words = torch.randn(4, 6, 8)
padding = torch.arange(6) >= torch.tensor([[6], [5], [3], [4]])
labels = torch.tensor([0, 1, 1, 0])

for _ in range(3):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(head(attention(words, padding)), labels)
    loss.backward()
    optimizer.step()

print(f"loss {loss.item():.3f}")
