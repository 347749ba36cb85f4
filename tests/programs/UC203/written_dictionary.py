# theme: what is written
# says: `p['b']` is one of several views
# advice: p['b'] = p['b'] + a

import torch
from torch import nn

torch.manual_seed(0)

a, b = (torch.ones(2, requires_grad=True) * 2).unbind()
p = {'b': b}
p['b'] += a  # write
