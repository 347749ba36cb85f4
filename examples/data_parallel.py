"""Two ranks make the same mistake: sigmoid keeps its result for backward, and the next line overwrites it."""

import torch
from torch.nn.parallel import DistributedDataParallel

torch.distributed.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(3, 3))
gate = model(torch.ones(2, 3)).sigmoid()
gate[0] = 0.5
gate.sum().backward()
torch.distributed.destroy_process_group()
