"""pyro: the filter of a hidden Markov model writes each step where the last one was read."""

import torch
from pyro.contrib.mue.missingdatahmm import MissingDataDiscreteHMM

initial = torch.zeros(2, requires_grad=True)
steps, seen = torch.zeros(2, 2).log_softmax(-1), torch.zeros(2, 3).log_softmax(-1)
hmm = MissingDataDiscreteHMM(initial.log_softmax(-1), steps, seen)
hmm.filter(torch.eye(3)).sum().backward()
