"""vit_pytorch: `init_learned_bias_uniform=True` fills a parameter in place."""

from vit_pytorch.vit_nd_pope import GoldenGatePoPENd

GoldenGatePoPENd(dim_pos=2, heads=2, dim_head=8, init_learned_bias_uniform=True)
