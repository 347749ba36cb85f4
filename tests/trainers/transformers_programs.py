"""Tiny models for the Trainer of transformers, and how to train them."""

from __future__ import annotations

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Model(nn.Module):
    """Nothing is written in place."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(4, 1)

    def gate(self, x):
        return self.drop(self.inner(x)).sigmoid()

    def forward(self, x):
        return {"loss": self.head(self.gate(x)).square().mean()}


class Overwrites(Model):
    """sigmoid keeps its result for backward, and the next line overwrites a part of it."""

    def gate(self, x):
        gate = super().gate(x)
        gate[:, 0] = 0.25  # the write
        return gate


class Copies(Model):
    """The same program, written right."""

    def gate(self, x):
        gate = super().gate(x).clone()
        gate[:, 0] = 0.25
        return gate


class Silently(Model):
    """The same by a write that torch doesn't see."""

    def gate(self, x):
        gate = super().gate(x)
        gate.data[:, 0] = 0.25
        return gate


class WritesLeaf(Model):
    """torch refuses the write itself."""

    def forward(self, x):
        self.inner.weight.mul_(0.5)
        return super().forward(x)


class Raises(Model):
    """The user's own error, in the second step."""

    def __init__(self, error):
        super().__init__()
        self.error, self.steps = error, 0

    def forward(self, x):
        self.steps += 1
        if self.steps == 2:
            raise self.error
        return super().forward(x)


class LanguageModel(GPT2LMHeadModel):
    """A real one, with dropout."""

    def __init__(self):
        super().__init__(GPT2Config(vocab_size=17, n_positions=8, n_embd=16, n_layer=2, n_head=2))


class OwnTrain(Trainer):
    """A trainer with a loop of its own."""

    def train(self):
        self.callback_handler.on_train_begin(self.args, self.state, self.control)


def rows(kind, count):
    if issubclass(kind, LanguageModel):
        return [{"input_ids": row, "labels": row} for row in torch.randint(17, (count, 8))]
    return [{"x": row} for row in torch.randn(count, 4)]


def trainer(kind, folder, *callbacks, steps=3, trainer_class=Trainer):
    """A trainer of a model of ``kind``; its seed is always the same."""
    torch.manual_seed(0)
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=2,
        learning_rate=0.1,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        remove_unused_columns=False,
    )
    model = kind()
    return trainer_class(model, arguments, train_dataset=rows(kind, 2 * steps), callbacks=list(callbacks))
