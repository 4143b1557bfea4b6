#include <algorithm>

#include "ir/interpret_ops.hpp"

namespace braid::ir {

std::pair<WideTensor, WideTensor> interpret_compact(const WideTensor& mask,
                                                    const WideTensor& rows) {
  const auto n = static_cast<int64_t>(mask.i.size());
  const int64_t inner = n == 0 ? 0 : rows.type.shape.numel() / n;
  WideTensor out{rows.type, {}, {}};
  out.f.resize(rows.f.size());
  out.i.resize(rows.i.size());
  int64_t count = 0;
  const auto copy = [&](const auto& from, auto& to, int64_t row) {
    if (!from.empty()) std::copy_n(from.begin() + row * inner, inner, to.begin() + count * inner);
  };
  for (int64_t row = 0; row < n; ++row) {
    if (mask.i[static_cast<size_t>(row)] == 0) continue;
    copy(rows.f, out.f, row);
    copy(rows.i, out.i, row);
    ++count;
  }
  return {std::move(out), WideTensor{{DType::i32, {}}, {}, {count}}};
}

}  // namespace braid::ir
