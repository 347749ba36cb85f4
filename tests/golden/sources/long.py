import torch

w = torch.ones(3, requires_grad=True)
first_intermediate_result_of_the_encoder, second_intermediate_result_of_the_decoder = w * 2, (w * 3).exp()
loss = first_intermediate_result_of_the_encoder.sum() + (second_intermediate_result_of_the_decoder ** 2).sum() + w.sum()
second_intermediate_result_of_the_decoder[0] = first_intermediate_result_of_the_encoder.detach()[0] + 3.0
loss.backward()
