# theme: what is written
# says: `even` is a view of one of several views
# advice: none

import torch

torch.manual_seed(0)

q, k, v = (torch.randn(6, 4, requires_grad=True) * 1).view(3, 2, 4).unbind(0)  # made
even, odd = q[..., 0::2], q[..., 1::2]
even.mul_(0.6).sub_(odd * 0.8)  # write
(q * k + v).sum().backward()
