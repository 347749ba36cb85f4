import torch

import unclobber

unclobber.install()

w = torch.ones(3, requires_grad=True)
gate = w.sigmoid()
gate += 1
gate.sum().backward()
