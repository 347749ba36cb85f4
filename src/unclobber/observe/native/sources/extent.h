// Which bytes of its storage a tensor covers.
#pragma once
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace unclobber {

// The bytes of its storage that a tensor covers: blocks that begin at multiples of `step` from the first one, or just
// one block. They are those of `unclobber.observe.record._region.Region`, or more.
struct Extent {
  int64_t first, end;  // end: after the last byte
  int64_t block;
  int64_t step = 0;

  explicit Extent(const at::Tensor& tensor) : block(static_cast<int64_t>(tensor.itemsize())) {
    const int64_t item = block;
    first = end = tensor.storage_offset() * item;
    if (tensor.numel() == 0) return;
    std::vector<std::pair<int64_t, int64_t>> dimensions;  // (stride in bytes, count)
    for (int64_t i = 0; i < tensor.dim(); i++) {
      if (tensor.size(i) > 1 && tensor.stride(i) != 0) dimensions.emplace_back(tensor.stride(i) * item, tensor.size(i));
    }
    std::sort(dimensions.begin(), dimensions.end());
    end += item;
    for (const auto& [stride, count] : dimensions) {
      end += (count - 1) * stride;
      if (step == 0 && stride <= block) {
        block = (count - 1) * stride + block;
      } else {
        step = std::gcd(step, stride);
      }
    }
  }

  bool may_meet(const Extent& other) const {
    if (end <= other.first || other.end <= first) return false;
    const int64_t both = std::gcd(step, other.step);
    if (both == 0 || block + other.block > both) return true;
    const int64_t apart = ((other.first - first) % both + both) % both;
    return apart < block || apart + other.block > both;
  }
};

}  // namespace unclobber
