import torch
from torch import nn

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.project = nn.Embedding(5, 4), nn.Linear(4, 4)
        self.words.requires_grad_(False)

    def enable_input_require_grads(self):
        def make_inputs_require_grads(module, args, output):
            output.requires_grad_(True)

        self.words.register_forward_hook(make_inputs_require_grads)

    def forward(self, ids, image):
        embeds = self.words(ids).clone()
        embeds[ids == 0] = self.project(image)
        return embeds


model = Model()
model.enable_input_require_grads()
model(torch.tensor([1, 0, 0, 2]), torch.ones(2, 4)).square().sum().backward()
