#include "runtime/message.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace braid {
namespace {

std::string element_text(const HostTensor& t, int64_t i) {
  switch (t.type.dtype) {
    case DType::f64:
      return fmt::format("{:.10g}", t.at(i));
    case DType::f32:
      return fmt::format("{:.6g}", t.at(i));
    case DType::f16:
    case DType::bf16:
      return fmt::format("{:.4g}", t.at(i));
    case DType::b1:
      return t.int_at(i) != 0 ? "true" : "false";
    default:
      return fmt::format("{}", t.int_at(i));
  }
}

/// Elements from `first` on, of `axis` and those after it.
std::string axis_text(const HostTensor& t, int axis, int64_t first) {
  constexpr int64_t kEdge = 3;
  const Shape& shape = t.type.shape;
  if (axis == shape.rank()) return element_text(t, first);
  int64_t stride = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) stride *= shape[i].value();
  const int64_t extent = shape[axis].value();
  std::string text = "[";
  for (int64_t i = 0; i < extent; ++i) {
    if (i > 0) text += ", ";
    if (i == kEdge && extent > 2 * kEdge) {
      text += "..., ";
      i = extent - kEdge;
    }
    text += axis_text(t, axis + 1, first + i * stride);
  }
  return text + "]";
}

}  // namespace

std::string abbreviated(const HostTensor& t) { return axis_text(t, 0, 0); }

std::string to_string(const Message& m) {
  std::string s;
  if (m.kind == ir::MessageKind::check) {
    const int64_t count = m.value.int_at(0);
    s = fmt::format("check '{}' failed for {} element{}", m.text, count, count == 1 ? "" : "s");
  } else {
    s = fmt::format("{} {} = {}", m.text, to_string(m.value.type), abbreviated(m.value));
  }
  s += fmt::format("   {}  launch {}", m.place.empty() ? m.op : m.place, m.launch);
  if (!m.iterations.empty()) s += fmt::format(", iteration {}", fmt::join(m.iterations, "."));
  if (m.dropped_before > 0) s += fmt::format(", {} dropped before it", m.dropped_before);
  return s;
}

}  // namespace braid
