#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <unordered_map>

#include "ir/lexer.hpp"
#include "ir/tensor.hpp"
#include "ir/text.hpp"

namespace braid::ir {
namespace {

/// Leaves the current line; the diagnostic is recorded already.
struct LineError {};

constexpr size_t kMaxErrors = 100;

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : lexer_(text, file) { advance(); }

  Graph run() {
    try {
      header();
      while (!at_symbol("}") && token_.kind != Token::Kind::end && errors_.size() < kMaxErrors) {
        line();
      }
      if (errors_.empty()) {
        if (!at_symbol("}")) fail("E0101", "the graph needs a closing '}'");
        advance();
        if (token_.kind == Token::Kind::newline) advance();
        if (token_.kind != Token::Kind::end) fail("E0101", "nothing may follow the closing '}'");
      }
    } catch (const LineError&) {
    }
    if (errors_.empty()) errors_ = verify(graph_);
    if (!errors_.empty()) throw Error(std::move(errors_));
    return std::move(graph_);
  }

 private:
  using Kind = Token::Kind;

  void advance() { token_ = lexer_.next(); }
  bool at_symbol(std::string_view s) const {
    return token_.kind == Kind::symbol && token_.text == s;
  }
  bool at_word(std::string_view s) const { return token_.kind == Kind::word && token_.text == s; }

  void report(std::string code, std::string message, const Place& place, std::string hint = {}) {
    Diagnostic d;
    d.code = std::move(code);
    d.message = std::move(message);
    d.place = place;
    d.suggestion = std::move(hint);
    errors_.push_back(std::move(d));
  }
  [[noreturn]] void fail(std::string code, std::string message, std::string hint = {}) {
    report(std::move(code), std::move(message), token_.place, std::move(hint));
    throw LineError{};
  }

  std::string take(Kind kind, std::string_view what) {
    if (token_.kind != kind) fail("E0101", fmt::format("expected {}", what));
    std::string text = std::move(token_.text);
    advance();
    return text;
  }
  void take_symbol(std::string_view s) {
    if (!at_symbol(s)) fail("E0101", fmt::format("expected '{}'", s));
    advance();
  }
  void take_word(std::string_view s) {
    if (!at_word(s)) fail("E0101", fmt::format("expected '{}'", s));
    advance();
  }
  int64_t take_int(std::string_view what) {
    if (token_.kind == Kind::number) {
      errno = 0;
      char* end = nullptr;
      const long long v = std::strtoll(token_.text.c_str(), &end, 10);
      if (errno == 0 && *end == '\0') {
        advance();
        return v;
      }
    }
    fail("E0101", fmt::format("expected {}: an integer of 64 bits", what));
  }
  void end_line() {
    if (token_.kind == Kind::end || at_symbol("}")) return;
    if (token_.kind != Kind::newline) fail("E0101", "expected the end of the line");
    advance();
  }

  void header() {
    take_word("bir");
    const Place place = token_.place;
    const int64_t version = take_int("the version");
    if (version != kBirVersion) {
      report("E0102",
             fmt::format("this is version {} of the text form, only {} is known", version,
                         kBirVersion),
             place);
      throw LineError{};
    }
    end_line();
    take_word("graph");
    graph_.name = take(Kind::string, "the graph's name in quotes");
    take_symbol("{");
    end_line();
  }

  void line() {
    defined_.clear();
    try {
      if (token_.kind == Kind::value) {
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
        fail("E0101", "expected '%NUMBER: TYPE = OP', 'output', 'dim' or 'repeat'");
      }
      end_line();
    } catch (const LineError&) {
      // Uses of what this line should have defined stay silent.
      if (!defined_.empty()) values_.emplace(defined_, ValueId{});
      while (token_.kind != Kind::newline && token_.kind != Kind::end) advance();
      if (token_.kind == Kind::newline) advance();
    }
  }

  void dim_line() {
    advance();
    const std::string name = take(Kind::word, "the dim's name");
    std::optional<int64_t> value, max;
    if (at_symbol("=")) {
      advance();
      value = take_int("the default");
    }
    if (at_word("max")) {
      advance();
      max = take_int("the maximum");
    }
    graph_.dims.symbol(name, value, max);
  }

  void output_line() {
    advance();
    Output o;
    o.name = take(Kind::string, "the output's name in quotes");
    const std::optional<ValueId> v = operand();
    o.loc = location();
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
      report("E0202", fmt::format("%{} is used before it is defined", number), place);
      throw LineError{};
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
      for (int i = 0; i < kNumDTypes; ++i)
        known.emplace_back(braid::name_of(static_cast<DType>(i)));
      report("E0203", fmt::format("unknown dtype '{}'", name), place, suggest(name, known));
      throw LineError{};
    }
    TensorType t{*dtype, {}};
    take_symbol("[");
    while (!at_symbol("]")) {
      if (t.shape.rank() == kMaxRank) fail("E0301", "a shape has at most 8 axes");
      std::string text;
      const Place at = token_.place;
      while (!at_symbol(",") && !at_symbol("]") &&
             (token_.kind == Kind::word || token_.kind == Kind::number ||
              token_.kind == Kind::symbol)) {
        text += token_.text + " ";
        advance();
      }
      const std::optional<Dim> d = graph_.dims.parse(text);
      if (!d) {
        report("E0101", fmt::format("'{}' is no extent", text), at);
        throw LineError{};
      }
      t.shape.push_back(*d);
      if (at_symbol(",")) {
        advance();
      } else if (!at_symbol("]")) {
        fail("E0101", "expected ',' or ']'");
      }
    }
    advance();
    return t;
  }

  Loc location() {
    Loc loc;
    if (!at_word("loc")) return loc;
    advance();
    take_symbol("(");
    loc.file = graph_.strings.intern(take(Kind::string, "a file name in quotes"));
    for (uint32_t* field : {&loc.line, &loc.column, &loc.end_column}) {
      take_symbol(":");
      *field = static_cast<uint32_t>(take_int("a line or column"));
    }
    take_symbol(")");
    return loc;
  }

  void op_line() {
    defined_ = token_.text;
    if (values_.count(defined_)) {
      std::string again;
      again.swap(defined_);
      fail("E0201", fmt::format("%{} is defined twice", again));
    }
    advance();
    take_symbol(":");
    if (at_word("state")) advance();
    Graph::NewOp op{};
    op.type = type();
    take_symbol("=");
    const Place place = token_.place;
    const std::string name = take(Kind::word, "an op");
    if (!find_op(name, op)) {
      report("E0204", fmt::format("unknown op '{}'", name), place, suggest(name, op_names()));
      throw LineError{};
    }
    bool poisoned = false;
    if (op.kind == OpKind::constant) {
      op.attrs = ConstAttr{literal(*op.type)};
    } else if (token_.kind == Kind::value) {
      while (true) {
        const std::optional<ValueId> v = operand();
        poisoned |= !v;
        if (v) op.operands.push_back(*v);
        if (!at_symbol(",")) break;
        advance();
      }
    }
    if (token_.kind == Kind::string) {
      op.name = graph_.strings.intern(token_.text);
      advance();
    }
    if (at_symbol("{")) attributes(op);
    op.loc = location();
    if (poisoned) throw LineError{};
    const Graph::Added added = graph_.try_add(std::move(op));
    if (!added.error.empty()) {
      report("E0301", added.error, place);
      throw LineError{};
    }
    values_.emplace(defined_, added.value);
  }

  static std::vector<std::string> op_names() {
    std::vector<std::string> names;
    for (const OpInfo& i : op_table()) {
      if (i.kind != OpKind::map && i.kind != OpKind::reduce && i.kind != OpKind::view) {
        names.emplace_back(i.name);
      }
    }
    for (int k = 0; k < 4; ++k) names.emplace_back(name_of(static_cast<ViewKind>(k)));
    for (const ScalarInfo& f : scalar_functions()) {
      names.emplace_back(f.name);
      if (f.combiner) names.push_back("reduce_" + std::string(f.name));
    }
    return names;
  }

  /// Kind and the part of the attributes that the name implies.
  static bool find_op(std::string_view name, Graph::NewOp& op) {
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
    if (name.substr(0, 7) == "reduce_") {
      const auto fn = fn_from_name(name.substr(7));
      if (!fn) return false;
      op.kind = OpKind::reduce;
      op.attrs = ReduceAttr{*fn, 0};
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
    return true;
  }

  uint32_t literal(const TensorType& t) {
    Literal l{t, true, {}};
    if (at_word("hex")) {
      advance();
      const Place place = token_.place;
      const std::string hex = take(Kind::string, "the bytes in quotes");
      const auto digit = [](char c) {
        return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
      };
      // The length is compared before anything is allocated.
      uint64_t expected = static_cast<uint64_t>(size_of(t.dtype));
      bool is_static = true, empty = false, huge = false;
      for (Dim d : t.shape) {
        is_static = is_static && d.is_const();
        if (!d.is_const()) continue;
        empty = empty || d.value() == 0;
        huge =
            __builtin_mul_overflow(expected, static_cast<uint64_t>(d.value()), &expected) || huge;
      }
      if (empty) expected = 0;
      if (!is_static || (huge && !empty) || hex.size() % 2 != 0 || hex.size() / 2 != expected) {
        report("E0103",
               fmt::format("the literal has {} hex digits, which is not what {} holds", hex.size(),
                           to_string(t, &graph_.dims)),
               place);
        throw LineError{};
      }
      l.splat = false;
      for (size_t i = 0; i < hex.size(); i += 2) {
        const int high = digit(hex[i]), low = digit(hex[i + 1]);
        if (high < 0 || low < 0) {
          report("E0103", "a literal's bytes are lower-case hex digits", place);
          throw LineError{};
        }
        l.bytes.push_back(static_cast<std::byte>(high * 16 + low));
      }
      return graph_.add_literal(std::move(l));
    }
    HostTensor one(TensorType{t.dtype, {}});
    if (token_.kind != Kind::number && !at_word("nan") && !at_word("inf")) {
      fail("E0101", "expected a number or hex\"..\"");
    }
    if (is_float(t.dtype)) {
      char* end = nullptr;
      const double x = std::strtod(token_.text.c_str(), &end);
      if (*end != '\0') fail("E0101", fmt::format("'{}' is no number", token_.text));
      one.set(0, x);
      advance();
    } else {
      one.set_int(0, take_int("the value"));
    }
    l.bytes = std::move(one.bytes);
    return graph_.add_literal(std::move(l));
  }

  std::vector<int64_t> int_list() {
    std::vector<int64_t> xs;
    take_symbol("[");
    while (!at_symbol("]")) {
      if (xs.size() == static_cast<size_t>(kMaxRank)) fail("E0302", "a list has at most 8 entries");
      xs.push_back(take_int("an entry"));
      if (at_symbol(",")) {
        advance();
      } else if (!at_symbol("]")) {
        fail("E0101", "expected ',' or ']'");
      }
    }
    advance();
    return xs;
  }

  static Axes to_axes(const std::vector<int64_t>& xs) {
    Axes a{};
    std::copy(xs.begin(), xs.end(), a.begin());
    return a;
  }

  bool take_bool() {
    const std::string word = take(Kind::word, "true or false");
    if (word != "true" && word != "false") fail("E0302", "expected true or false");
    return word == "true";
  }

  /// A list with one entry per axis of the operand.
  std::vector<int64_t> per_axis(const Graph::NewOp& op) {
    const Place place = token_.place;
    std::vector<int64_t> xs = int_list();
    if (op.operands.size() == 1 &&
        xs.size() != static_cast<size_t>(graph_.type(op.operands[0]).shape.rank())) {
      report("E0302",
             fmt::format("the list needs one entry per axis of {}",
                         to_string(graph_.type(op.operands[0]), &graph_.dims)),
             place);
      throw LineError{};
    }
    return xs;
  }

  void attribute(Graph::NewOp& op, const std::string& name, const Place& place) {
    if (auto* a = std::get_if<ReduceAttr>(&op.attrs); a && name == "axes") {
      for (int64_t axis : int_list()) {
        if (axis < 0 || axis >= kMaxRank) fail("E0302", "an axis lies between 0 and 7");
        a->axes |= 1u << axis;
      }
      return;
    }
    if (auto* a = std::get_if<DotAttr>(&op.attrs)) {
      if (name == "ta") return void(a->ta = take_bool());
      if (name == "tb") return void(a->tb = take_bool());
    }
    if (auto* a = std::get_if<ViewAttr>(&op.attrs)) {
      const bool slice = a->kind == ViewKind::slice;
      if (name == "axes" && !slice && a->kind != ViewKind::reshape) {
        return void(a->a = to_axes(per_axis(op)));
      }
      if (name == "starts" && slice) return void(a->a = to_axes(per_axis(op)));
      if (name == "steps" && slice) return void(a->b = to_axes(per_axis(op)));
    }
    if (auto* a = std::get_if<AxisAttr>(&op.attrs); a && name == "axis") {
      const int64_t axis = take_int("the axis");
      if (axis < 0 || axis >= kMaxRank) fail("E0302", "an axis lies between 0 and 7");
      a->axis = static_cast<int>(axis);
      return;
    }
    if (auto* a = std::get_if<ParamAttr>(&op.attrs)) {
      if (name == "init") {
        const std::string word = take(Kind::word, "normal, zeros or ones");
        if (word != "normal" && word != "zeros" && word != "ones") {
          fail("E0302", "init is normal, zeros or ones");
        }
        a->init = word == "normal" ? Init::normal : word == "zeros" ? Init::zeros : Init::ones;
        return;
      }
      if (name == "scale") {
        char* end = nullptr;
        if (token_.kind != Kind::number) fail("E0101", "expected a number");
        a->scale = std::strtod(token_.text.c_str(), &end);
        if (*end != '\0') fail("E0101", fmt::format("'{}' is no number", token_.text));
        return advance();
      }
    }
    report("E0205", fmt::format("this op has no attribute '{}'", name), place);
    throw LineError{};
  }

  void attributes(Graph::NewOp& op) {
    advance();
    while (!at_symbol("}")) {
      const Place place = token_.place;
      const std::string name = take(Kind::word, "an attribute's name");
      take_symbol("=");
      attribute(op, name, place);
      if (at_symbol(",")) {
        advance();
      } else if (!at_symbol("}")) {
        fail("E0101", "expected ',' or '}'");
      }
    }
    advance();
  }

  Lexer lexer_;
  Token token_;
  Graph graph_;
  std::vector<Diagnostic> errors_;
  std::unordered_map<std::string, ValueId> values_;  // by number as written; invalid: poisoned
  std::string defined_;                              // by the current line
};

}  // namespace

Graph parse(std::string_view text, std::string_view file) { return Parser(text, file).run(); }

}  // namespace braid::ir
