"""x_transformers: `bias_uniform_init=True` fills a parameter in place."""

from x_transformers.x_transformers import PolarEmbedding

PolarEmbedding(8, 2, bias_uniform_init=True)
