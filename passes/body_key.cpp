#include "passes/body_key.hpp"

#include <cstring>

#include "ir/code_op.hpp"

namespace braid {
namespace {

class Writer {
 public:
  template <class T>
  void put(const T& x) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    const auto* bytes = reinterpret_cast<const char*>(&x);
    key_.append(bytes, sizeof x);
  }
  void put(const TensorType& t) {
    put(t.dtype);
    put(static_cast<uint8_t>(t.shape.rank()));
    for (Dim d : t.shape) put(d.value());
  }
  void put(const ir::Axes& axes) {
    for (int64_t a : axes) put(a);
  }
  void put_text(const void* bytes, size_t count) {
    put(count);
    key_.append(static_cast<const char*>(bytes), count);
  }
  std::string take() { return std::move(key_); }

 private:
  std::string key_;
};

void put_attrs(Writer& w, const ir::Graph& body, const ir::Op& op) {
  w.put(static_cast<uint8_t>(op.attrs.index()));
  struct Visitor {
    Writer& w;
    const ir::Graph& body;
    void operator()(const std::monostate&) const {}
    void operator()(const ir::MapAttr& a) const { w.put(a.fn); }
    void operator()(const ir::ReduceAttr& a) const {
      w.put(a.fn);
      w.put(a.axes);
    }
    void operator()(const ir::DotAttr& a) const {
      w.put(static_cast<uint8_t>((a.ta ? 1 : 0) + (a.tb ? 2 : 0) + (a.tf32 ? 4 : 0)));
    }
    void operator()(const ir::ViewAttr& a) const {
      w.put(a.kind);
      w.put(a.a);
      w.put(a.b);
    }
    void operator()(const ir::AxisAttr& a) const { w.put(a.axis); }
    void operator()(const ir::ScatterAttr& a) const {
      w.put(a.axis);
      w.put(a.fn.has_value());
      if (a.fn) w.put(*a.fn);
    }
    void operator()(const ir::ConstAttr& a) const {
      const ir::Literal& l = body.literals[a.literal];
      w.put(l.splat);
      w.put_text(l.bytes.data(), l.bytes.size());
    }
    void operator()(const ir::ParamAttr& a) const {
      w.put(a.init);
      w.put(a.scale);
    }
    void operator()(const ir::ScalarAttr& a) const { w.put(a.value); }
    void operator()(const ir::HostAttr& a) const {
      const std::string_view name = body.strings[a.function];
      w.put_text(name.data(), name.size());
      w.put(a.pure);
      w.put(a.way);
    }
    void operator()(const ir::KernelAttr& a) const {
      const std::string text = ir::attributes_text(body, a);
      w.put_text(text.data(), text.size());
    }
    void operator()(const ir::LibraryAttr& a) const {
      const std::string text = ir::attributes_text(body, a);
      w.put_text(text.data(), text.size());
    }
    void operator()(const ir::LocalAttr&) const {}
    void operator()(const ir::HandleAttr&) const {}
    void operator()(const ir::RingAttr&) const {}
    void operator()(const ir::BranchAttr&) const { ensure(false, "a branch is no kernel"); }
    void operator()(const ir::LoopAttr&) const { ensure(false, "a loop is no kernel"); }
    void operator()(const ir::SendAttr& a) const {
      w.put(a.kind);
      w.put(a.id);
      w.put(a.ends_launch);
    }
  };
  std::visit(Visitor{w, body}, op.attrs);
}

}  // namespace

std::string body_key(const ir::Graph& body) {
  Writer w;
  for (const ir::Op& op : body.ops()) {
    w.put(op.kind);
    put_attrs(w, body, op);
    w.put(static_cast<uint32_t>(op.operands.size()));
    for (ir::ValueId v : op.operands) w.put(v.index);
    for (uint32_t r = 0; r < op.results; ++r) w.put(body.type(op.result_at(r)));
  }
  for (const ir::Output& o : body.outputs) w.put(o.value.index);
  return w.take();
}

}  // namespace braid
