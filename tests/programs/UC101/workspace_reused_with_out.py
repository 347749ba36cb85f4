# family: saved_modified
# torch: one of the variables needed for gradient computation has been modified by an inplace operation: \[torch\.FloatTensor \[40\]\] is at version \d+; expected version \d+
# counter: moves
# saves: wave * amp[k]
# fix: render every harmonic into a fresh tensor; mul saved the shared workspace
# source: https://github.com/axolotl-ai-cloud/axolotl/pull/3892

"""Additive synthesis: each harmonic is rendered into the same workspace with out=."""
import torch

torch.manual_seed(0)


def show(name, g):
    print(f"{name} {g.sum().item():.6g} {g.abs().sum().item():.6g}")


time = torch.linspace(0, 1, 40)
target = torch.sign(torch.sin(6.2831853 * time))
amp = torch.full((5,), 0.5, requires_grad=True)

wave = torch.empty_like(time)
signal = torch.zeros_like(time)
for k in range(5):
    torch.mul(time, 6.2831853 * (k + 1), out=wave)  # write
    torch.sin(wave, out=wave)  # write
    signal = signal + wave * amp[k]  # saved
loss = (signal - target).pow(2).mean()
loss.backward()  # needed

show("amp", amp.grad)
