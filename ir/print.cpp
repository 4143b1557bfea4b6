#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ir/code_op.hpp"
#include "ir/tensor.hpp"
#include "ir/text.hpp"

namespace braid::ir {

std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

namespace {

std::string list(std::span<const int64_t> xs) {
  std::string s = "[";
  for (size_t i = 0; i < xs.size(); ++i) s += fmt::format("{}{}", i ? ", " : "", xs[i]);
  return s + "]";
}

std::string axes(const Axes& a, int rank) {
  return list(std::span(a.data(), static_cast<size_t>(rank)));
}

/// The fewest digits that, read as a double and rounded to the dtype, give these bytes again.
std::string shortest(const HostTensor& one) {
  const double x = one.at(0);
  if (std::isnan(x)) return "nan";  // of one sign and payload
  if (one.type.dtype != DType::f64 && std::isfinite(x)) {
    HostTensor back(one.type);
    for (int digits = 1; digits <= 9; ++digits) {
      const std::string text = fmt::format("{:.{}g}", x, digits);
      double read = 0;
      std::from_chars(text.data(), text.data() + text.size(), read);
      back.set(0, read);
      if (back.bytes == one.bytes) return fmt::format("{}", read);
    }
  }
  return fmt::format("{}", x);
}

std::string literal_text(const Literal& l) {
  if (!l.splat) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string hex = "hex\"";
    hex.reserve(hex.size() + l.bytes.size() * 2 + 1);
    for (std::byte b : l.bytes) {
      hex += kDigits[static_cast<size_t>(b >> 4)];
      hex += kDigits[static_cast<size_t>(b & std::byte{15})];
    }
    return hex + "\"";
  }
  HostTensor one(TensorType{l.type.dtype, {}});
  one.bytes = l.bytes;
  return is_float(l.type.dtype) ? shortest(one) : fmt::format("{}", one.int_at(0));
}

std::string place_text(const Graph& g, const Loc& loc) {
  std::string s = fmt::format(" loc({}:{}:{}", quoted(g.strings[loc.file]), loc.line, loc.column);
  if (loc.end_column != 0) s += fmt::format(":{}", loc.end_column);
  return s + ")";
}

std::string attributes(const Graph& g, const Op& op) {
  const auto axis_bits = [](uint32_t bits) {
    std::vector<int64_t> xs;
    for (int64_t i = 0; i < kMaxRank; ++i) {
      if (bits >> i & 1) xs.push_back(i);
    }
    return list(xs);
  };
  struct Visitor {
    const Graph& g;
    const Op& op;
    decltype(axis_bits)& bits;
    std::string operator()(const ReduceAttr& a) const {
      return fmt::format("axes={}", bits(a.axes));
    }
    std::string operator()(const DotAttr& a) const {
      std::string s;
      if (a.ta) s += "ta=true";
      if (a.tb) s += s.empty() ? "tb=true" : ", tb=true";
      if (a.tf32) s += s.empty() ? "tf32=true" : ", tf32=true";
      return s;
    }
    std::string operator()(const ViewAttr& a) const {
      const ValueId x = op.operands[0];  // may be wrong in a graph that verify() complains about
      const int rank = x.index < g.values().size() ? g.type(x).shape.rank() : 0;
      switch (a.kind) {
        case ViewKind::reshape:
          return {};
        case ViewKind::slice:
          return fmt::format("starts={}, steps={}", axes(a.a, rank), axes(a.b, rank));
        default:
          return fmt::format("axes={}", axes(a.a, rank));
      }
    }
    std::string operator()(const AxisAttr& a) const { return fmt::format("axis={}", a.axis); }
    std::string operator()(const LocalAttr&) const { return "sort=local"; }
    std::string operator()(const HandleAttr&) const { return "sort=handle"; }
    std::string operator()(const RingAttr&) const { return "sort=ring"; }
    std::string operator()(const BranchAttr& a) const { return region({}, a.lowering, {}, a.why); }
    std::string operator()(const LoopAttr& a) const {
      std::vector<std::string> first, last;
      if (a.carried) first.push_back(fmt::format("carried={}", a.carried));
      if (a.limit) first.push_back("limit=" + g.dims.str(*a.limit));
      if (a.unroll) last.push_back(fmt::format("unroll={}", a.unroll));
      return region(std::move(first), a.lowering, last, a.why);
    }
    std::string region(std::vector<std::string> all, Lowering lowering,
                       const std::vector<std::string>& more, StrId why) const {
      if (lowering != Lowering::automatic) {
        all.push_back(fmt::format("lowering={}", braid::ir::name_of(lowering)));
      }
      all.insert(all.end(), more.begin(), more.end());
      if (!g.strings[why].empty()) all.push_back("why=" + quoted(g.strings[why]));
      return fmt::format("{}", fmt::join(all, ", "));
    }
    std::string operator()(const SendAttr& a) const {
      std::string s =
          fmt::format("message={}, text={}", braid::ir::name_of(a.kind), quoted(g.strings[a.text]));
      if (a.id) s += fmt::format(", id={}", a.id);
      if (a.ends_launch) s += ", ends_launch=true";
      return s;
    }
    std::string operator()(const ScatterAttr& a) const { return fmt::format("axis={}", a.axis); }
    std::string operator()(const ParamAttr& a) const {
      if (a.init != Init::normal) {
        return fmt::format("init={}", name_of(a.init));
      }
      return a == ParamAttr{} ? "" : fmt::format("scale={}", a.scale);
    }
    std::string operator()(const ScalarAttr& a) const { return fmt::format("scalar={}", a.value); }
    std::string operator()(const HostAttr& a) const {
      std::string s = "function=" + quoted(g.strings[a.function]);
      if (a.pure) s += ", pure=true";
      if (a.way != HostWay::automatic) s += fmt::format(", way={}", braid::ir::name_of(a.way));
      if (!g.strings[a.why].empty()) s += ", why=" + quoted(g.strings[a.why]);
      return s;
    }
    std::string operator()(const KernelAttr& a) const { return attributes_text(g, a); }
    std::string operator()(const LibraryAttr& a) const { return attributes_text(g, a); }
    std::string operator()(const MapAttr&) const { return {}; }
    std::string operator()(const ConstAttr&) const { return {}; }
    std::string operator()(std::monostate) const { return {}; }
  };
  return std::visit(Visitor{g, op, axis_bits}, op.attrs);
}

std::string op_text(const Graph& g, OpId id, const PrintOptions& options) {
  const Op& op = g.op(id);
  const Value& v = g.value(op.result);
  std::string s = fmt::format("%{}: {}{}", op.result.index, v.state ? "state " : "",
                              to_string(v.type, &g.dims));
  for (uint32_t i = 1; i < op.results; ++i) {
    const ValueId more = op.result_at(i);
    s += fmt::format(", %{}: {}{}", more.index, g.value(more).state ? "state " : "",
                     to_string(g.type(more), &g.dims));
  }
  s += " = " + mnemonic(op);
  if (const auto* c = std::get_if<ConstAttr>(&op.attrs)) {
    s += " " + literal_text(g.literals[c->literal]);
  }
  for (size_t i = 0; i < op.operands.size(); ++i) {
    s += fmt::format("{} %{}", i ? "," : "", op.operands[i].index);
  }
  if (op.name.valid()) s += " " + quoted(g.strings[op.name]);
  std::string a = attributes(g, op);
  if (op.outside) a += a.empty() ? "graph=false" : ", graph=false";
  if (!a.empty()) s += " {" + a + "}";
  if (options.places && op.loc.line != 0) s += place_text(g, op.loc);
  return s;
}

/// The first version of the text form that has words for all of it.
int version_of(const Graph& g) {
  int version = 1;
  for (const Op& op : g.ops()) {
    const auto* host = std::get_if<HostAttr>(&op.attrs);
    if (runs_code(op.kind) || op.kind == OpKind::compact ||
        (host && (host->way != HostWay::automatic || host->why.valid()))) {
      return 3;
    }
    if (is_region(op.kind) || op.kind == OpKind::send ||
        (op.kind == OpKind::param && !std::holds_alternative<ParamAttr>(op.attrs))) {
      version = 2;
    }
  }
  for (const Graph& body : g.bodies) version = std::max(version, version_of(body));
  return version;
}

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  std::string run(const Graph& g) {
    out_ = fmt::format("bir {}\ngraph {} {{\n", version_of(g), quoted(g.name));
    lines(g, "  ");
    return std::move(out_) + "}\n";
  }

 private:
  void lines(const Graph& g, const std::string& indent) {
    for (const DimTable::Symbol& d : g.dims.symbols()) {
      out_ += indent + "dim " + d.name;
      if (d.default_value) out_ += fmt::format(" = {}", *d.default_value);
      if (d.max) out_ += fmt::format(" max {}", *d.max);
      out_ += "\n";
    }
    for (const Repeat& r : g.repeats) {
      out_ += fmt::format("{}repeat {} {}\n", indent, quoted(r.prefix), r.count);
    }
    for (uint32_t i = 0; i < g.ops().size(); ++i) {
      out_ += indent + op_text(g, OpId{i}, options_);
      bodies(g, g.ops()[i], indent);
      out_ += "\n";
    }
    for (const Output& o : g.outputs) {
      out_ += fmt::format("{}output {} %{}", indent, quoted(o.name), o.value.index);
      if (options_.places && o.loc.line != 0) out_ += place_text(g, o.loc);
      out_ += "\n";
    }
  }

  void bodies(const Graph& g, const Op& op, const std::string& indent) {
    const std::vector<uint32_t> all = bodies_of(op);
    if (all.empty()) return;
    out_ += " {\n";
    for (size_t b = 0; b < all.size(); ++b) {
      const bool condition = op.kind == OpKind::loop && b == 1;
      const Graph& body = g.bodies[all[b]];
      out_ += fmt::format("{}  {} {} {{\n", indent, condition ? "condition" : "body",
                          quoted(body.name));
      lines(body, indent + "    ");
      out_ += indent + "  }\n";
    }
    out_ += indent + "}";
  }

  const PrintOptions& options_;
  std::string out_;
};

}  // namespace

std::string mnemonic(const Op& op) {
  if (const auto* a = std::get_if<MapAttr>(&op.attrs)) return std::string(braid::info(a->fn).name);
  if (const auto* a = std::get_if<ReduceAttr>(&op.attrs)) {
    return fmt::format("reduce_{}", braid::info(a->fn).name);
  }
  if (const auto* a = std::get_if<ScatterAttr>(&op.attrs); a && a->fn) {
    return fmt::format("scatter_{}", braid::info(*a->fn).name);
  }
  if (const auto* a = std::get_if<ViewAttr>(&op.attrs)) return std::string(name_of(a->kind));
  return std::string(info(op.kind).name);
}

std::string print_op(const Graph& graph, OpId id) { return op_text(graph, id, {}); }

std::string print(const Graph& graph, const PrintOptions& options) {
  return Printer(options).run(graph);
}

}  // namespace braid::ir
