from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.scores = nn.Linear(8, 8)
        self.drop = nn.Dropout(0.1, inplace=True)

    def forward(self, x):
        weights = self.scores(x).softmax(-1)
        return self.drop(weights) @ x
