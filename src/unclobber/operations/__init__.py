"""Facts about torch's operations as one table, readable without torch."""

from ._table import ModuleFacts, Overload, TorchTable, only_tensors_have, torch_table

__all__ = ["ModuleFacts", "Overload", "TorchTable", "only_tensors_have", "torch_table"]
