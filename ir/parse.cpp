#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "ir/code_op.hpp"
#include "ir/parse_attributes.hpp"
#include "ir/parse_ops.hpp"
#include "ir/tensor.hpp"
#include "ir/text.hpp"

namespace braid::ir {
namespace {

constexpr size_t kMaxErrors = 100;
constexpr size_t kMaxSymbols = 1000;

/// Bytes of all elements; nothing if they are not known or too many to count.
std::optional<size_t> literal_bytes(const TensorType& t) {
  int64_t bytes = size_of(t.dtype);
  for (Dim d : t.shape) {
    if (!d.is_const() || __builtin_mul_overflow(bytes, d.value(), &bytes)) return std::nullopt;
  }
  return static_cast<size_t>(bytes);
}

class Parser : GraphReader {
 public:
  Parser(std::string_view text, std::string_view file) : GraphReader(text, file), file_(file) {
    names_.file = graph_.strings.intern(file);
  }

  Graph run() {
    try {
      header();
      lines();
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
    if (version < 1 || version > kBirVersion) {
      fail("E0105",
           fmt::format("this is version {} of the text form, known are those up to {}", version,
                       kBirVersion),
           place);
    }
    end_line();
    take_word("graph");
    graph_.name = take(Kind::string, "the graph's name in quotes");
    take_symbol("{");
    end_line();
  }

  void lines() {
    while (!at_symbol("}") && !at(Kind::end) && errors_.size() < kMaxErrors) line();
  }

  void line() {
    names_.defined.clear();
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
      for (const Defined& d : names_.defined) names_.values.emplace(d.number, ValueId{});
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
    const auto it = names_.values.find(number);
    if (it == names_.values.end()) {
      fail("E0204", fmt::format("%{} is used before it is defined", number), place);
    }
    if (!it->second.valid()) return std::nullopt;
    return it->second;
  }

  /// What `loc(..)` says, else the place in this text.
  Loc location(const Place& here) {
    if (!at_word("loc")) return {names_.file, here.line, here.column, here.end_column};
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
    define();
    while (at_symbol(",")) {
      advance();
      define();
    }
    take_symbol("=");
    Graph::NewOp op{};
    op.type = names_.defined[0].type;
    for (size_t i = 1; i < names_.defined.size(); ++i) op.more.push_back(names_.defined[i].type);
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
    const bool braces = at_symbol("{");
    if (braces) advance();
    bool block = braces && at(Kind::newline);
    if (braces && !block) attributes(op, poisoned);
    op.loc = location(start);
    if (!block && at_symbol("{")) {
      advance();
      if (!at(Kind::newline)) expected("the end of the line");
      block = true;
    }
    if (block) bodies(op, name, place);
    if (poisoned) throw LineError{};
    if (runs_code(op.kind)) {  // versions follow from the operands
      while (!op.more.empty() && names_.defined[op.more.size()].state) op.more.pop_back();
      if (op.more.empty() && names_.defined[0].state) op.type.reset();
    }
    const Graph::Added added = graph_.try_add(std::move(op));
    if (!added.error.empty()) fail("E0301", added.error, place);
    enter(added.value, name, place);
  }

  /// "%3: i32[1]": a result, with the "%3" and the type that are declared.
  void define() {
    const Place place = token_.place;
    const std::string number = take(Kind::value, "a value such as %3");
    const bool twice = names_.values.count(number) ||
                       std::any_of(names_.defined.begin(), names_.defined.end(),
                                   [&](const Defined& d) { return d.number == number; });
    if (twice) fail("E0201", fmt::format("%{} is defined twice", number), place);
    names_.defined.push_back({number, {}, false, {}});
    Defined& d = names_.defined.back();
    take_symbol(":");
    d.type_place = token_.place;
    d.state = at_word("state");
    if (d.state) advance();
    d.type = type();
  }

  /// The results of an op, which must be what the line declares.
  void enter(ValueId first, const std::string& name, const Place& place) {
    const uint32_t results = graph_.def(first).results;
    if (results != names_.defined.size()) {
      fail("E0301",
           fmt::format("{} has {} result{}, not {}", name, results, results == 1 ? "" : "s",
                       names_.defined.size()),
           place);
    }
    for (uint32_t r = 0; r < results; ++r) {
      const Defined& d = names_.defined[r];
      const Value& v = graph_.value({first.index + r});
      if (v.state != d.state) {
        fail("E0301",
             fmt::format(
                 "the result of {} is {}", name,
                 d.state ? "a tensor, not a state" : "a state: write 'state' before its type"),
             d.type_place);
      }
      if (v.type != d.type) {
        fail("E0301",
             fmt::format("the result of {} is {}, not {}", name, to_string(v.type, &graph_.dims),
                         to_string(d.type, &graph_.dims)),
             d.type_place);
      }
    }
    for (uint32_t r = 0; r < results; ++r) {
      names_.values.emplace(names_.defined[r].number, ValueId{first.index + r});
    }
  }

  /// The lines of a branch's or loop's bodies, and the "}" behind them.
  void bodies(Graph::NewOp& op, const std::string& name, const Place& place) {
    const size_t errors = errors_.size();
    advance();
    while (!at_symbol("}") && !at(Kind::end) && errors_.size() < kMaxErrors) {
      try {
        body(op);
      } catch (const LineError&) {
        skip_line();
      }
    }
    if (errors_.size() == errors) {
      take_symbol("}");
    } else if (at_symbol("}")) {
      advance();
    }
    if (errors_.size() != errors) throw LineError{};
    if (!is_region(op.kind)) {
      fail("E0101", fmt::format("{} has no bodies", name), place);
    }
  }

  void body(Graph::NewOp& op) {
    auto* loop = std::get_if<LoopAttr>(&op.attrs);
    const bool condition = at_word("condition");
    if (condition && (!loop || loop->body == kNoBody || loop->condition != kNoBody)) {
      fail("E0101", "a condition follows the body of a loop");
    }
    if (!condition && loop && loop->body != kNoBody) fail("E0101", "a loop has one body");
    if (!condition && !at_word("body")) expected("'body' or 'condition'");
    advance();
    const std::string name = take(Kind::string, "the body's name in quotes");
    if (!at_symbol("{")) expected("'{'");
    if (depth_ == kMaxBodyDepth) {
      fail("E0302", fmt::format("bodies nest at most {} deep", kMaxBodyDepth));
    }
    advance();
    end_line();
    Graph outer = std::exchange(graph_, Graph(name));
    Names outer_names = std::exchange(names_, {});
    names_.file = graph_.strings.intern(file_);
    ++depth_;
    lines();
    --depth_;
    std::swap(graph_, outer);
    names_ = std::move(outer_names);
    take_symbol("}");
    end_line();
    const auto index = static_cast<uint32_t>(graph_.bodies.size());
    graph_.bodies.push_back(std::move(outer));
    if (auto* branch = std::get_if<BranchAttr>(&op.attrs)) branch->bodies.push_back(index);
    if (loop) (condition ? loop->condition : loop->body) = index;
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

  struct Defined {
    std::string number;
    Place type_place;
    bool state = false;
    TensorType type;
  };
  /// What numbers stand for in one graph.
  struct Names {
    StrId file;
    std::unordered_map<std::string, ValueId> values;  // by number as written; invalid: poisoned
    std::vector<Defined> defined;                     // by the current line
  };

  std::string_view file_;
  Names names_;
  int depth_ = 0;  // of bodies around the current line
};

}  // namespace

Graph parse(std::string_view text, std::string_view file) { return Parser(text, file).run(); }

}  // namespace braid::ir
