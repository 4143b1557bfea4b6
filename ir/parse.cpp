#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "ir/parse_reader.hpp"
#include "ir/tensor.hpp"
#include "ir/text.hpp"

namespace braid::ir {
namespace {

constexpr size_t kMaxErrors = 100;
constexpr size_t kMaxSymbols = 1000;

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpInfo& i : op_table()) {
    if (i.kind != OpKind::map && i.kind != OpKind::reduce && i.kind != OpKind::view) {
      names.emplace_back(i.name);
    }
  }
  for (int k = 0; k < 4; ++k) names.emplace_back(name_of(static_cast<ViewKind>(k)));
  for (const ScalarInfo& f : scalar_functions()) {
    names.emplace_back(f.name);
    if (!f.combiner) continue;
    names.push_back("reduce_" + std::string(f.name));
    names.push_back("scatter_" + std::string(f.name));
  }
  return names;
}

/// Kind and the part of the attributes that the name implies.
bool find_op(std::string_view name, Graph::NewOp& op) {
  for (int k = 0; k < 4; ++k) {
    if (name == name_of(static_cast<ViewKind>(k))) {
      op.kind = OpKind::view;
      op.attrs = ViewAttr{static_cast<ViewKind>(k), {}, {}};
      return true;
    }
  }
  if (const auto fn = fn_from_name(name)) {
    op.kind = OpKind::map;
    op.attrs = MapAttr{*fn};
    return true;
  }
  if (name.starts_with("reduce_")) {
    const auto fn = fn_from_name(name.substr(7));
    if (!fn) return false;
    op.kind = OpKind::reduce;
    op.attrs = ReduceAttr{*fn, 0};
    return true;
  }
  if (name.starts_with("scatter_")) {
    const auto fn = fn_from_name(name.substr(8));
    if (!fn) return false;
    op.kind = OpKind::scatter;
    op.attrs = ScatterAttr{0, fn};
    return true;
  }
  const auto kind = op_kind_from_name(name);
  if (!kind || *kind == OpKind::map || *kind == OpKind::reduce || *kind == OpKind::view) {
    return false;
  }
  op.kind = *kind;
  if (op.kind == OpKind::dot) op.attrs = DotAttr{};
  if (op.kind == OpKind::param) op.attrs = ParamAttr{};
  if (op.kind == OpKind::iota || op.kind == OpKind::concat || op.kind == OpKind::gather) {
    op.attrs = AxisAttr{};
  }
  if (op.kind == OpKind::scatter) op.attrs = ScatterAttr{};
  if (op.kind == OpKind::host) op.attrs = HostAttr{};
  return true;
}

/// Bytes of all elements; nothing if they are not known or too many to count.
std::optional<size_t> literal_bytes(const TensorType& t) {
  int64_t bytes = size_of(t.dtype);
  for (Dim d : t.shape) {
    if (!d.is_const() || __builtin_mul_overflow(bytes, d.value(), &bytes)) return std::nullopt;
  }
  return static_cast<size_t>(bytes);
}

class Parser : Reader {
 public:
  Parser(std::string_view text, std::string_view file)
      : Reader(text, file), file_(graph_.strings.intern(file)) {}

  Graph run() {
    try {
      header();
      while (!at_symbol("}") && !at(Kind::end) && errors_.size() < kMaxErrors) line();
      if (errors_.empty()) {
        take_symbol("}");
        if (at(Kind::newline)) advance();
        if (!at(Kind::end)) fail("E0101", "nothing may follow the closing '}'");
      }
    } catch (const LineError&) {
    }
    if (errors_.empty()) errors_ = verify(graph_);
    if (!errors_.empty()) throw Error(std::move(errors_));
    return std::move(graph_);
  }

 private:
  void header() {
    take_word("bir");
    const Place place = token_.place;
    const int64_t version = take_int("the version");
    if (version != kBirVersion) {
      fail("E0105",
           fmt::format("this is version {} of the text form, only {} is known", version,
                       kBirVersion),
           place);
    }
    end_line();
    take_word("graph");
    graph_.name = take(Kind::string, "the graph's name in quotes");
    take_symbol("{");
    end_line();
  }

  void line() {
    defined_.clear();
    also_defined_.clear();
    const Place place = token_.place;
    try {
      try {
        if (at(Kind::value)) {
          op_line();
        } else if (at_word("output")) {
          output_line();
        } else if (at_word("dim")) {
          dim_line();
        } else if (at_word("repeat")) {
          advance();
          const std::string prefix = take(Kind::string, "the scopes' prefix in quotes");
          graph_.repeats.push_back({prefix, take_int("the number of copies")});
        } else {
          expected("'%NUMBER: TYPE = OP', 'output', 'dim' or 'repeat'");
        }
        end_line();
      } catch (const Error& e) {  // arithmetic on extents, which knows no place
        fail(e.diagnostics().front().code, e.diagnostics().front().message, place);
      }
    } catch (const LineError&) {
      // Uses of what this line should have defined stay silent.
      if (!defined_.empty()) values_.emplace(defined_, ValueId{});
      for (const std::string& v : also_defined_) values_.emplace(v, ValueId{});
      skip_line();
    }
  }

  void dim_line() {
    advance();
    const Place place = token_.place;
    const std::string name = take(Kind::word, "the dim's name");
    const std::vector<DimTable::Symbol>& known = graph_.dims.symbols();
    for (const DimTable::Symbol& s : known) {
      if (s.name == name) fail("E0201", fmt::format("there are two dims named '{}'", name), place);
    }
    if (known.size() == kMaxSymbols) {
      fail("E0302", fmt::format("a graph has at most {} dims", kMaxSymbols), place);
    }
    std::optional<int64_t> value, max;
    if (at_symbol("=")) {
      advance();
      value = extent("the default");
    }
    if (at_word("max")) {
      advance();
      max = extent("the maximum");
    }
    graph_.dims.symbol(name, value, max);
  }

  int64_t extent(std::string_view what) {
    const Place place = token_.place;
    const int64_t n = take_int(what);
    if (n < 0) fail("E0302", fmt::format("{} cannot be negative", what), place);
    return n;
  }

  void output_line() {
    const Place place = token_.place;
    advance();
    Output o;
    o.name = take(Kind::string, "the output's name in quotes");
    const std::optional<ValueId> v = operand();
    o.loc = location(place);
    if (v) {
      o.value = *v;
      graph_.outputs.push_back(std::move(o));
    }
  }

  /// The value; nothing if the line that defines it is wrong.
  std::optional<ValueId> operand() {
    const Place place = token_.place;
    const std::string number = take(Kind::value, "a value such as %3");
    const auto it = values_.find(number);
    if (it == values_.end()) {
      fail("E0204", fmt::format("%{} is used before it is defined", number), place);
    }
    if (!it->second.valid()) return std::nullopt;
    return it->second;
  }

  TensorType type() {
    const Place place = token_.place;
    const std::string name = take(Kind::word, "a type such as f32[2,3]");
    const std::optional<DType> dtype = dtype_from_name(name);
    if (!dtype) {
      std::vector<std::string> known;
      for (int i = 0; i < kNumDTypes; ++i) {
        known.emplace_back(braid::name_of(static_cast<DType>(i)));
      }
      fail("E0205", fmt::format("unknown dtype '{}'", name), place, suggest(name, known));
    }
    TensorType t{*dtype, {}};
    take_symbol("[");
    while (!at_symbol("]")) {
      if (t.shape.rank() == kMaxRank) fail("E0301", "a shape has at most 8 axes");
      t.shape.push_back(dim());
      separator("]");
    }
    advance();
    return t;
  }

  Dim dim() {
    std::string text;
    const Place place = token_.place;
    const auto in_extent = [&] {
      return at(Kind::word) || at(Kind::number) ||
             (at(Kind::symbol) && std::string_view("+-*()").find(token_.text) != std::string::npos);
    };
    while (in_extent()) {
      if (at(Kind::word)) known_dim();
      text += (text.empty() ? "" : " ") + token_.text;
      advance();
    }
    const std::optional<Dim> d = graph_.dims.parse(text);
    if (!d) fail("E0101", fmt::format("'{}' is no extent", text), place);
    return *d;
  }

  void known_dim() {
    std::vector<std::string> known;
    for (const DimTable::Symbol& s : graph_.dims.symbols()) {
      if (s.name == token_.text) return;
      known.push_back(s.name);
    }
    fail("E0403", fmt::format("no line declares the dim '{0}': write 'dim {0}'", token_.text),
         token_.place, suggest(token_.text, known));
  }

  /// What `loc(..)` says, else the place in this text.
  Loc location(const Place& here) {
    if (!at_word("loc")) return {file_, here.line, here.column, here.end_column};
    advance();
    take_symbol("(");
    Loc loc;
    loc.file = graph_.strings.intern(take(Kind::string, "a file name in quotes"));
    const auto field = [&] {
      take_symbol(":");
      const Place place = token_.place;
      const int64_t n = take_int("a line or column");
      if (n < 0 || n > UINT32_MAX) fail("E0302", "a line or column is below 2^32", place);
      return static_cast<uint32_t>(n);
    };
    loc.line = field();
    loc.column = field();
    if (at_symbol(":")) loc.end_column = field();
    take_symbol(")");
    return loc;
  }

  void op_line() {
    const Place start = token_.place;
    if (values_.count(token_.text)) {
      fail("E0201", fmt::format("%{} is defined twice", token_.text));
    }
    defined_ = token_.text;
    advance();
    take_symbol(":");
    const Place type_place = token_.place;
    const bool state = at_word("state");
    if (state) advance();
    Graph::NewOp op{};
    op.type = type();
    while (at_symbol(",")) more_results(op);
    take_symbol("=");
    const Place place = token_.place;
    const std::string name = take(Kind::word, "an op");
    if (!find_op(name, op)) {
      fail("E0202", fmt::format("unknown op '{}'", name), place, suggest(name, op_names()));
    }
    bool poisoned = false;
    if (op.kind == OpKind::constant) {
      op.attrs = ConstAttr{literal(*op.type)};
    } else if (at(Kind::value)) {
      while (true) {
        const std::optional<ValueId> v = operand();
        poisoned |= !v;
        if (v) op.operands.push_back(*v);
        if (!at_symbol(",")) break;
        advance();
      }
    }
    if (at(Kind::string)) {
      op.name = graph_.strings.intern(token_.text);
      advance();
    }
    if (at_symbol("{")) attributes(op, poisoned);
    op.loc = location(start);
    if (poisoned) throw LineError{};
    const Graph::Added added = graph_.try_add(std::move(op));
    if (!added.error.empty()) fail("E0301", added.error, place);
    if (graph_.value(added.value).state != state) {
      fail("E0301",
           fmt::format("the result of {} is {}", name,
                       state ? "a tensor, not a state" : "a state: write 'state' before its type"),
           type_place);
    }
    values_.emplace(defined_, added.value);
    for (uint32_t i = 0; i < also_defined_.size(); ++i) {
      values_.emplace(also_defined_[i], ValueId{added.value.index + 1 + i});
    }
  }

  /// ", %4: i32[1]": a host op's results after the first.
  void more_results(Graph::NewOp& op) {
    advance();
    const Place place = token_.place;
    const std::string number = take(Kind::value, "a value such as %3");
    const bool twice = values_.count(number) || number == defined_ ||
                       std::count(also_defined_.begin(), also_defined_.end(), number) > 0;
    if (twice) fail("E0201", fmt::format("%{} is defined twice", number), place);
    also_defined_.push_back(number);
    take_symbol(":");
    op.more.push_back(type());
  }

  uint32_t literal(const TensorType& t) {
    if (at_word("hex")) return hex_literal(t);
    Literal l{t, true, {}};
    HostTensor one(TensorType{t.dtype, {}});
    if (is_float(t.dtype)) {
      one.set(0, take_double("the value"));
    } else {
      const Place place = token_.place;
      const int64_t x = take_int("the value");
      one.set_int(0, x);
      if (one.int_at(0) != x) {
        fail("E0107", fmt::format("{} does not fit {}", x, braid::name_of(t.dtype)), place);
      }
    }
    l.bytes = std::move(one.bytes);
    return graph_.add_literal(std::move(l));
  }

  uint32_t hex_literal(const TensorType& t) {
    advance();
    const Place place = token_.place;
    const std::string hex = take(Kind::string, "the bytes in quotes");
    const auto digit = [](char c) {
      return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    };
    // The length is compared before anything is allocated.
    if (const auto bytes = literal_bytes(t);
        !bytes || hex.size() % 2 != 0 || hex.size() / 2 != *bytes) {
      fail("E0107",
           fmt::format("the literal has {} hex digits, which is not what {} holds", hex.size(),
                       to_string(t, &graph_.dims)),
           place);
    }
    Literal l{t, false, {}};
    l.bytes.reserve(hex.size() / 2);
    for (size_t i = 0; i < hex.size(); i += 2) {
      const int high = digit(hex[i]), low = digit(hex[i + 1]);
      if (high < 0 || low < 0) fail("E0107", "a literal's bytes are lower-case hex digits", place);
      if (t.dtype == DType::b1 && high * 16 + low > 1) {
        fail("E0107", "a byte of b1 is 00 or 01", place);
      }
      l.bytes.push_back(static_cast<std::byte>(high * 16 + low));
    }
    return graph_.add_literal(std::move(l));
  }

  void attributes(Graph::NewOp& op, bool poisoned) {
    std::set<std::string> seen;
    advance();
    while (!at_symbol("}")) {
      const Place place = token_.place;
      const std::string name = take(Kind::word, "an attribute's name");
      if (!seen.insert(name).second) {
        fail("E0201", fmt::format("the attribute '{}' stands here twice", name), place);
      }
      take_symbol("=");
      attribute(op, name, place, poisoned);
      separator("}");
    }
    advance();
  }

  void attribute(Graph::NewOp& op, const std::string& name, const Place& place, bool poisoned) {
    if (auto* a = std::get_if<ReduceAttr>(&op.attrs); a && name == "axes") {
      for (int64_t axis : take_ints()) a->axes |= 1u << checked_axis(axis, place);
      return;
    }
    if (auto* a = std::get_if<DotAttr>(&op.attrs)) {
      if (name == "ta") return void(a->ta = take_bool());
      if (name == "tb") return void(a->tb = take_bool());
      if (name == "tf32") return void(a->tf32 = take_bool());
    }
    if (auto* a = std::get_if<ViewAttr>(&op.attrs)) {
      const bool slice = a->kind == ViewKind::slice;
      if (name == "axes" && !slice && a->kind != ViewKind::reshape) {
        return void(a->a = per_axis(op, poisoned));
      }
      if (name == "starts" && slice) return void(a->a = per_axis(op, poisoned));
      if (name == "steps" && slice) return void(a->b = per_axis(op, poisoned));
    }
    if (auto* a = std::get_if<AxisAttr>(&op.attrs); a && name == "axis") {
      return void(a->axis = checked_axis(take_int("the axis"), place));
    }
    if (auto* a = std::get_if<ScatterAttr>(&op.attrs); a && name == "axis") {
      return void(a->axis = checked_axis(take_int("the axis"), place));
    }
    if (auto* a = std::get_if<ParamAttr>(&op.attrs)) {
      if (name == "init") {
        a->init = static_cast<Init>(take_choice({kInitNames.begin(), kInitNames.end()},
                                                "init to be normal, zeros or ones"));
        return;
      }
      if (name == "scale") return void(a->scale = take_double("the scale"));
    }
    if (auto* a = std::get_if<HostAttr>(&op.attrs)) {
      if (name == "function") {
        a->function = graph_.strings.intern(take(Kind::string, "the function's name in quotes"));
        return;
      }
      if (name == "pure") return void(a->pure = take_bool());
    }
    if (name == "graph") return void(op.outside = !take_bool());
    if (op.kind == OpKind::input && name == "scalar") {
      op.attrs = ScalarAttr{take_double("the scalar's value")};
      return;
    }
    fail("E0102", fmt::format("this op has no attribute '{}'", name), place);
  }

  int checked_axis(int64_t axis, const Place& place) {
    if (axis < 0 || axis >= kMaxRank) fail("E0302", "an axis lies between 0 and 7", place);
    return static_cast<int>(axis);
  }

  /// A list with one entry per axis of the operand.
  Axes per_axis(const Graph::NewOp& op, bool poisoned) {
    const Place place = token_.place;
    const std::vector<int64_t> xs = take_ints();
    if (!poisoned && op.operands.size() == 1) {
      const TensorType& t = graph_.type(op.operands[0]);
      if (xs.size() != static_cast<size_t>(t.shape.rank())) {
        fail("E0302",
             fmt::format("the list needs one entry per axis of {}", to_string(t, &graph_.dims)),
             place);
      }
    }
    Axes axes{};
    std::copy(xs.begin(), xs.end(), axes.begin());
    return axes;
  }

  Graph graph_;
  StrId file_;
  std::unordered_map<std::string, ValueId> values_;  // by number as written; invalid: poisoned
  std::string defined_;                              // by the current line
  std::vector<std::string> also_defined_;            // its results after the first
};

}  // namespace

Graph parse(std::string_view text, std::string_view file) { return Parser(text, file).run(); }

}  // namespace braid::ir
