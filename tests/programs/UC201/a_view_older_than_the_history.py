import torch

torch.manual_seed(0)

drag = torch.tensor([0.5, 2.0], requires_grad=True)
state = torch.zeros(3, 4)
place, speed = state[:, :2], state[:, 2:]
speed += drag
place += speed * 0.1  # write
state.square().sum().backward()
