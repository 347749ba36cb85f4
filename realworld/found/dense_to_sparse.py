"""torch_geometric: edges of a batched adjacency matrix are shifted after they have indexed it."""

import torch
from torch_geometric.utils import dense_to_sparse

adjacency = torch.ones(2, 3, 3, requires_grad=True)
_, weights = dense_to_sparse(adjacency)
weights.sum().backward()
