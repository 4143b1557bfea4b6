#include "passes/kernels/sinks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "passes/kernels/messages.hpp"

namespace braid::kernels {
namespace {

using ir::OpKind;

/// The param of which `state` is a version.
ir::ValueId param_of(const ir::Graph& body, ir::ValueId state) {
  while (body.def(state).kind != OpKind::param) state = body.def(state).operands[0];
  return state;
}

/// Whether `v` is computed by no op of the kernel: memory can be read at any element, so where one
/// op reads it says nothing of where another stands.
bool from_memory(const ir::Graph& body, ir::ValueId v) {
  while (body.def(v).kind == OpKind::view || body.def(v).kind == OpKind::read) {
    v = body.def(v).operands[0];
  }
  const OpKind kind = body.def(v).kind;
  return kind == OpKind::input || kind == OpKind::param || kind == OpKind::constant ||
         kind == OpKind::iota;
}

/// Where the sink's element lies in its argument.
Index address(ExprWriter& writer, const PlacedSink& p) {
  const ir::Graph& body = writer.body();
  IndexPool& pool = writer.pool();
  const std::vector<int64_t> box = body.type(p.sink.value).shape.extents();
  if (p.sink.kind != Sink::Kind::update) return linearize(pool, p.at, box);
  const ir::Op& op = body.op(p.sink.op);
  const std::vector<int64_t> whole = body.type(op.operands[0]).shape.extents();
  At at = p.at;
  for (size_t i = 0; i < at.size(); ++i) {
    const int64_t places = whole[i] - box[i] + 1;
    if (places <= 1) continue;  // the start can only be 0
    const std::string start = writer.value(op.operands[2 + i], {});
    at[i] = pool.add(at[i], writer.clamped_index(start, places, {}));
  }
  return linearize(pool, at, whole);
}

/// The statements of a sink for one thread.
std::vector<std::string> one_thread_lines(ExprWriter& writer, const Sink& sink,
                                          const std::string& value) {
  const Signature& signature = writer.signature();
  if (sink.kind == Sink::Kind::handle) return handle_lines(signature.args[sink.arg], value);
  std::vector<std::string> numbers;
  const std::vector<ir::ValueId>& operands = writer.body().op(sink.op).operands;
  for (size_t i = 2; i < operands.size(); ++i) numbers.push_back(writer.value(operands[i], {}));
  return send_lines(writer.body(), sink, signature, value, numbers);
}

}  // namespace

std::vector<Sink> sinks_of(const ir::Graph& body, const Signature& signature) {
  std::vector<Sink> sinks;
  for (size_t i = signature.leading; i < signature.args.size(); ++i) {
    sinks.push_back({Sink::Kind::output, signature.args[i].value, i, {}});
  }
  for (const ir::Op& op : body.ops()) {
    if (op.kind != OpKind::assign && op.kind != OpKind::update && op.kind != OpKind::send) continue;
    const size_t arg = signature.arg_of(param_of(body, op.operands[0]));
    const bool handle = signature.args[arg].sort == Argument::Sort::handle;
    const auto kind = op.kind == OpKind::send     ? Sink::Kind::send
                      : op.kind == OpKind::update ? Sink::Kind::update
                      : handle                    ? Sink::Kind::handle
                                                  : Sink::Kind::assign;
    sinks.push_back({kind, op.operands[1], arg, body.value(op.result).def});
  }
  std::erase_if(sinks,
                [&](const Sink& s) { return s.stores() && body.type(s.value).shape.numel() == 0; });
  return sinks;
}

ir::ValueId walked(const std::vector<Sink>& sinks) {
  const auto stores =
      std::find_if(sinks.begin(), sinks.end(), [](const Sink& s) { return s.stores(); });
  return stores == sinks.end() ? sinks[0].value : stores->value;
}

std::vector<Sink> take_single(const ir::Graph& body, std::vector<Sink>& sinks, int64_t elements) {
  std::vector<Sink> single;
  if (elements == 1) return single;
  const auto is_single = [&](const Sink& s) {
    return !s.stores() && body.type(s.value).shape.numel() == 1;
  };
  std::copy_if(sinks.begin(), sinks.end(), std::back_inserter(single), is_single);
  std::erase_if(sinks, is_single);
  return single;
}

std::vector<bool> needed_by(const ir::Graph& body, const std::vector<Sink>& sinks) {
  std::vector<bool> needed(body.values().size(), false);
  for (const Sink& s : sinks) {
    needed[s.value.index] = true;
    if (s.kind == Sink::Kind::update) {
      for (const ir::ValueId v : body.op(s.op).operands) needed[v.index] = true;
    }
    if (s.kind == Sink::Kind::send) {
      const std::vector<ir::ValueId>& operands = body.op(s.op).operands;
      for (size_t i = 2; i < operands.size(); ++i) needed[operands[i].index] = true;
    }
  }
  for (size_t i = body.ops().size(); i-- > 0;) {
    const ir::Op& op = body.ops()[i];
    if (!needed[op.result.index]) continue;
    for (const ir::ValueId v : op.operands) needed[v.index] = true;
  }
  return needed;
}

const At* Elements::find(ir::ValueId v) const {
  const auto it = at_.find(v);
  return it == at_.end() ? nullptr : &it->second;
}

void Elements::propagate() {
  for (bool changed = true; changed;) {
    changed = false;
    for (const ir::Op& op : body_.ops()) changed |= forward(op);
    for (size_t i = body_.ops().size(); i-- > 0;) changed |= backward(body_.ops()[i]);
  }
}

bool Elements::forward(const ir::Op& op) {
  if (find(op.result)) return false;
  if (op.kind == OpKind::map) {
    for (const ir::ValueId v : op.operands) {
      if (const At* at = find(v)) {
        set(op.result, At(*at));
        return true;
      }
    }
    return false;
  }
  if (op.kind != OpKind::view || from_memory(body_, op.operands[0])) return false;
  const At* at = find(op.operands[0]);
  const TensorType& from = body_.type(op.operands[0]);
  const TensorType& to = body_.type(op.result);
  if (!at || from.shape.numel() != to.shape.numel()) return false;
  const auto& view = std::get<ir::ViewAttr>(op.attrs);
  At result(static_cast<size_t>(to.shape.rank()), pool_.constant(0));
  switch (view.kind) {
    case ir::ViewKind::reshape:
      result = delinearize(pool_, linearize(pool_, *at, from.shape.extents()), to.shape.extents());
      break;
    case ir::ViewKind::transpose:
      for (size_t i = 0; i < result.size(); ++i) result[i] = (*at)[static_cast<size_t>(view.a[i])];
      break;
    case ir::ViewKind::broadcast:
      for (size_t i = 0; i < at->size(); ++i) result[static_cast<size_t>(view.a[i])] = (*at)[i];
      break;
    case ir::ViewKind::slice:
      result = *at;
      break;
  }
  set(op.result, std::move(result));
  return true;
}

bool Elements::backward(const ir::Op& op) {
  const At* at = find(op.result);
  if (!at || (op.kind != OpKind::map && op.kind != OpKind::view)) return false;
  bool changed = false;
  for (const ir::ValueId v : op.operands) {
    const TensorType& from = body_.type(v);
    const TensorType& to = body_.type(op.result);
    if (find(v) || from.shape.numel() != to.shape.numel() || from_memory(body_, v)) continue;
    set(v, op.kind == OpKind::map
               ? At(*at)
               : through_view(pool_, std::get<ir::ViewAttr>(op.attrs), from, to, *at));
    changed = true;
  }
  return changed;
}

void write_sinks(ExprWriter& writer, const std::vector<PlacedSink>& sinks,
                 const ExprWriter::Memory& memory) {
  const Signature& signature = writer.signature();
  std::vector<std::string> stores;
  for (const PlacedSink& p : sinks) {
    const std::string text = writer.value(p.sink.value, p.at);
    if (!p.sink.stores()) {
      const std::vector<std::string> lines = one_thread_lines(writer, p.sink, text);
      stores.insert(stores.end(), lines.begin(), lines.end());
      continue;
    }
    const Index linear = address(writer, p);
    const size_t arg = p.sink.arg;
    stores.push_back(fmt::format("{} = {};",
                                 memory ? memory(arg, linear) : writer.element(arg, linear),
                                 store_text(signature.args[arg].type.dtype, text)));
  }
  writer.lines(stores);  // after all loads: a param may be read and written here
}

void write_single(ExprWriter& writer, const std::vector<Sink>& sinks, std::string_view first) {
  if (sinks.empty()) return;
  std::vector<PlacedSink> placed;
  for (const Sink& s : sinks) {
    const std::vector<int64_t> extents = writer.body().type(s.value).shape.extents();
    placed.push_back({s, At(extents.size(), writer.pool().constant(0))});
  }
  writer.open_branch();
  write_sinks(writer, placed);
  const std::vector<std::string> lines = writer.close();
  writer.block(fmt::format("if ({})", first), lines);
}

void check_in_place(ExprWriter& writer, const std::vector<PlacedSink>& sinks) {
  const Signature& signature = writer.signature();
  for (const PlacedSink& p : sinks) {
    if (p.sink.kind != Sink::Kind::assign && p.sink.kind != Sink::Kind::update) continue;
    const std::string& name = signature.args[p.sink.arg].name;
    const bool whole = p.sink.kind == Sink::Kind::assign;
    for (const PlacedSink& o : sinks) {
      if (o.sink.op == p.sink.op || o.sink.arg != p.sink.arg) continue;
      if (!whole || o.sink.kind != Sink::Kind::assign || o.at != p.at) {
        throw Refusal{fmt::format("it writes param {} twice, at places that may differ", name)};
      }
    }
    for (const ExprWriter::Load& load : writer.loads()) {
      if (load.arg != p.sink.arg) continue;
      const Index to =
          linearize(writer.pool(), p.at, writer.body().type(p.sink.value).shape.extents());
      if (!whole || load.linear != to) {
        throw Refusal{fmt::format(
            "it reads param {} at other elements than those that the same thread writes", name)};
      }
    }
  }
}

}  // namespace braid::kernels
