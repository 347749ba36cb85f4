"""The first lines of the programs that run on two ranks."""

BEGIN = """\
import datetime, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=40))
rank = dist.get_rank()
"""
