"""The gates as modules for the Trainer of transformers, and how to train them."""

from __future__ import annotations

import gates
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Model(gates.Gate, nn.Module):
    def forward(self, x):
        return {"loss": self.loss(x)}


class Overwrites(gates.Overwriting, Model):
    pass


class Copies(gates.Copying, Model):
    pass


class Silently(gates.WritingSilently, Model):
    pass


class WritesLeaf(gates.WritingLeaf, Model):
    pass


class Raises(gates.Raising, Model):
    pass


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
