// Messages for the host: prints, items and checks.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "frontend/builder_impl.hpp"

namespace braid {

using ir::ValueId;

uint32_t Graph::Impl::the_ring() {
  if (!ring) {
    ring = static_cast<uint32_t>(variables.size());
    variables.push_back({"ring", ir::kRingType, ir::RingAttr{}, {}, {}});
    name_ring();
  }
  return *ring;
}

void Graph::Impl::name_ring() {
  if (!ring) return;
  std::string& name = variables[*ring].name;
  for (int i = 1; param_names.contains(name); ++i) name = fmt::format("ring.{}", i);
  BuilderFrame& graph = level(0);
  const auto it = graph.versions.find(*ring);
  if (it == graph.versions.end()) return;
  graph.ir.op(graph.ir.value(it->second.first).def).name = graph.ir.strings.intern(name);
}

void Graph::send(ir::MessageKind kind, ValueId value, std::string_view text, std::string_view name,
                 const Where& w) {
  if (!value.valid() || !impl_->may_change("send messages", w)) return;
  const uint32_t ring = impl_->the_ring();
  std::vector<ValueId> operands{impl_->versions_of(*impl_, ring).newest, value};
  for (size_t i = 0; i <= impl_->around.size(); ++i) {
    const ValueId counter = impl_->level(i).counter;
    if (counter.valid()) operands.push_back(impl_->capture(i, counter));
  }
  const ValueId next =
      impl_->emit(ir::OpKind::send, ir::SendAttr{kind, impl_->ir.strings.intern(text)},
                  std::move(operands), {}, w, name);
  if (next.valid()) impl_->advance(ring, next);
}

namespace {

/// What a message is called; "" after an error.
std::string label_of(Graph& g, std::string_view label, ValueId v, const Where& w) {
  if (!v.valid()) return {};
  Graph::Impl& impl = g.impl();
  const bool shown = std::none_of(label.begin(), label.end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
  });
  if (!shown) {
    impl.fail("E0306", "a label is one line without control characters", w);
    return {};
  }
  if (!label.empty()) return std::string(label);
  const std::string name(impl.ir.strings[impl.ir.def(v).name]);
  return name.empty() ? "value" : name;
}

}  // namespace

void Graph::print(In x, std::string_view label) {
  const ValueId v = unwrap(x);
  const std::string text = label_of(*this, label, v, x.where);
  if (!text.empty()) send(ir::MessageKind::print, v, text, "print", x.where);
}

void Graph::item(In x, std::string_view label) {
  const ValueId v = unwrap(x);
  const std::string text = label_of(*this, label, v, x.where);
  if (text.empty()) return;
  const Shape shape = impl_->ir.type(v).shape;
  if (!std::all_of(shape.begin(), shape.end(), [](Dim d) { return d == Dim(1); })) {
    impl_->fail("E0301", "item: it has more than one element", x.where, {impl_->describe(v)},
                "slice one out, or print the tensor");
    return;
  }
  send(ir::MessageKind::item, impl_->reshape(v, {}, x.where), text, "item", x.where);
}

void Graph::fail_unless(const In& x, std::string_view wanted, std::string_view label,
                        const std::function<Tensor()>& good) {
  const std::string name = label_of(*this, label.empty() ? "check" : label, unwrap(x), x.where);
  if (name.empty()) return;
  ValueId count;
  {
    const Scope scope = this->scope(name);
    const Tensor wrong = logical_not(In(good(), x.where));
    count = unwrap(In(sum(In(cast(In(wrong, x.where), i32), x.where), {.axes = {}}), x.where));
  }
  send(ir::MessageKind::check, count, wanted, name, x.where);
}

void Graph::check(In x, Check, std::string_view label) {
  const ValueId v = unwrap(x);
  if (!v.valid()) return;
  const Calling calling(*impl_, "check");
  if (!is_float(impl_->ir.type(v).dtype)) {
    impl_->fail("E0301", "check: only floats may be infinite or NaN", x.where,
                {impl_->describe(v)});
    return;
  }
  fail_unless(x, "finite", label, [&] {
    return less(In(abs(x), x.where), In(std::numeric_limits<double>::infinity(), x.where));
  });
}

void Graph::check_range(In x, double low, double high, std::string_view label) {
  if (!unwrap(x).valid()) return;
  const Calling calling(*impl_, "check_range");
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (!(low <= high) || (low == -kInf && high == kInf)) {
    impl_->fail("E0303", fmt::format("check_range: {} .. {} is no range", low, high), x.where);
    return;
  }
  const std::string wanted = low == -kInf   ? fmt::format("at most {}", high)
                             : high == kInf ? fmt::format("at least {}", low)
                                            : fmt::format("in {} .. {}", low, high);
  fail_unless(x, wanted, label, [&] {
    const In least(low, x.where), most(high, x.where);
    if (low == -kInf) return less_equal(x, most);
    if (high == kInf) return greater_equal(x, least);
    return logical_and(In(greater_equal(x, least), x.where), In(less_equal(x, most), x.where));
  });
}

}  // namespace braid
