// Nodes that are branches and loops, whose bodies are blocks, and nodes that are messages.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/toml_internal.hpp"

namespace braid::toml_reader {
namespace {

using Kind = Node::Kind;

std::string count(size_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

class RegionReader {
 public:
  RegionReader(const Item& item, const Surroundings& around, Types& types, Report& report,
               Node& node)
      : item_(item), around_(around), types_(types), report_(report), node_(node) {}

  bool read() {
    bool good = known_keys_ = keys();
    good = name() && good;
    good = lowering() && good;
    good = decider() && good;
    good = bodies() && good;
    good = rows() && good;
    // What blocks take and give counts where everything else is known.
    return good && arity();
  }

 private:
  bool keys() {
    switch (node_.kind) {
      case Kind::branch_if:
        return report_.check_keys(
            item_, {"if", "then", "else", "in", "out", "name", "lower", "graph"}, "an if");
      case Kind::branch_switch:
        return report_.check_keys(item_, {"switch", "cases", "in", "out", "name", "lower", "graph"},
                                  "a switch");
      case Kind::loop_while:
        return report_.check_keys(
            item_,
            {"while", "body", "in", "out", "stacked", "limit", "name", "lower", "unroll", "graph"},
            "a while");
      default:
        return report_.check_keys(
            item_, {"loop", "body", "in", "out", "stacked", "name", "lower", "unroll", "graph"},
            "a loop");
    }
  }

  bool is_loop() const { return node_.kind == Kind::loop || node_.kind == Kind::loop_while; }

  bool name() {
    const Entry* e = item_.find("name");
    if (!e) return true;
    if (!report_.expect(e->value, Item::Kind::string, "'name'") ||
        !report_.check_name(e->value.text, e->value.place, "a branch or loop")) {
      return false;
    }
    node_.scope = e->value.text;
    return true;
  }

  bool lowering() {
    if (const Entry* e = item_.find("lower")) {
      if (!report_.expect(e->value, Item::Kind::string, "'lower'")) return false;
      std::vector<std::string> known;
      for (size_t i = 0; i < ir::kLoweringNames.size(); ++i) {
        const auto l = static_cast<ir::Lowering>(i);
        const bool branch = l == ir::Lowering::select || l == ir::Lowering::predicate;
        if (is_loop() ? branch : l == ir::Lowering::unroll) continue;
        known.emplace_back(ir::name_of(l));
        if (e->value.text == known.back()) node_.lowering = l;
      }
      if (std::find(known.begin(), known.end(), e->value.text) == known.end()) {
        report_.error(
            "E0107", e->value.place,
            fmt::format(
                "'lower' of {} is {}, not '{}'", is_loop() ? "a loop" : "a branch",
                is_loop() ? "auto, node, unroll or host" : "auto, select, predicate, node or host",
                e->value.text),
            suggest(e->value.text, known));
        return false;
      }
    }
    const Entry* e = item_.find("unroll");
    if (!e) return true;
    if (!report_.expect_number(e->value, Item::Kind::integer, "'unroll'")) return false;
    if (e->value.integer < 1 || e->value.integer > kMaxUnroll) {
      report_.error("E0107", e->value.place,
                    fmt::format("'unroll' is from 1 to {}, not {}", kMaxUnroll, e->value.integer));
      return false;
    }
    node_.unroll = static_cast<int>(e->value.integer);
    return true;
  }

  /// What `if`, `switch` and `loop` hold, and `limit`.
  bool decider() {
    if (node_.kind == Kind::branch_if || node_.kind == Kind::branch_switch) {
      if (!report_.check_name(node_.target, node_.place, "a value")) return false;
      node_.at.push_back({node_.place, node_.target});
      return true;
    }
    const Entry* e = item_.find(node_.kind == Kind::loop ? "loop" : "limit");
    if (!e) return true;
    if (e->value.kind != Item::Kind::integer &&
        !report_.expect(e->value, Item::Kind::string, fmt::format("'{}'", e->key),
                        "a number of iterations, or a dim")) {
      return false;
    }
    node_.limit = types_.dims.extent(e->value);
    if (node_.kind == Kind::loop && e->value.kind == Item::Kind::integer) {
      node_.target = std::to_string(e->value.integer);
    }
    return node_.limit.has_value();
  }

  bool body(const Item& item, std::string_view what, std::string scope) {
    if (!report_.expect(item, Item::Kind::string, what, "the name of a block")) return false;
    node_.bodies.push_back({{item.text, item.place}, std::move(scope)});
    const auto it = around_.blocks.find(item.text);
    if (it != around_.blocks.end()) return !it->second.bad;
    if (report_.section_lost) return false;
    std::vector<std::string> known;
    for (const auto& [block, unused] : around_.blocks) known.push_back(block);
    report_.error("E0203", item.place, fmt::format("unknown block '{}'", item.text),
                  suggest(item.text, known));
    return false;
  }

  /// With a misspelt key the one that it stands for is not missing as well.
  const Entry* need(std::string_view key, std::string_view advice) {
    const Entry* e = item_.find(key);
    if (!e && known_keys_) {
      report_.error("E0103", node_.place, fmt::format("this node needs the key '{}'", key),
                    std::string(advice));
    }
    return e;
  }

  bool bodies() {
    bool good = true;
    if (node_.kind == Kind::branch_if) {
      const Entry* then = need("then", "the block where it is true, as in then = \"step\"");
      good = then && body(then->value, "'then'", "then");
      if (const Entry* e = item_.find("else")) {
        good = body(e->value, "'else'", "else") && good;
      } else if (!node_.out.empty() && known_keys_) {
        report_.error("E0103", node_.place,
                      fmt::format("this node needs the key 'else': '{}' has no value where '{}' is "
                                  "false",
                                  node_.out[0].text, node_.target),
                      "a block without nodes, whose 'out' names its 'in', hands its inputs on");
        good = false;
      }
    } else if (node_.kind == Kind::branch_switch) {
      const Entry* e = need("cases", "blocks by number, as in cases = [\"a\", \"b\"]");
      if (!e || !report_.expect(e->value, Item::Kind::array, "'cases'")) return false;
      for (size_t i = 0; i < e->value.items.size(); ++i) {
        good = body(e->value.items[i], "each of 'cases'", fmt::format("case{}", i)) && good;
      }
      if (e->value.items.empty()) {
        report_.error("E0504", e->value.place, "a switch needs at least one case");
        good = false;
      }
    } else {
      const Entry* e = need("body", "the block of an iteration, as in body = \"step\"");
      good = e && body(e->value, "'body'", "body");
      if (node_.kind == Kind::loop_while) {
        Item condition;
        condition.kind = Item::Kind::string;
        condition.text = node_.target;
        condition.place = node_.place;
        good = body(condition, "'while'", "while") && good;
      }
    }
    if (node_.scope.empty()) {
      node_.scope = !node_.out.empty()      ? node_.out[0].text
                    : !node_.bodies.empty() ? node_.bodies[0].block.text
                                            : std::string();
    }
    return good;
  }

  bool rows() {
    const Entry* e = item_.find("stacked");
    if (!e || !is_loop()) return true;
    const std::optional<std::vector<Text>> names = read_names(e->value, "'stacked'", report_);
    if (!names) {
      report_.names_lost = true;
      return false;
    }
    node_.stacked = names->size();
    node_.out.insert(node_.out.end(), names->begin(), names->end());
    if (node_.limit || node_.kind == Kind::loop) return true;
    report_.error("E0103", e->place, "a while with 'stacked' needs the key 'limit'",
                  "it is the number of rows, of which those that no iteration makes are 0");
    return false;
  }

  bool wrong_count(const Text& block, std::string message, std::string advice = {}) {
    report_.error("E0504", block.place, std::move(message), std::move(advice));
    return false;
  }

  bool arity() {
    const size_t carried = node_.out.size() - node_.stacked;
    if (is_loop() && carried > node_.in.size()) {
      return wrong_count({{}, node_.place},
                         fmt::format("'out' names {}, but 'in' {}", count(carried, "value"),
                                     count(node_.in.size(), "value")),
                         "the first of 'in' are what goes into the first iteration and, as 'out', "
                         "comes out of the last; rows are named in 'stacked'");
    }
    size_t most = 0;  // of 'in' that a body takes
    for (size_t i = 0; i < node_.bodies.size(); ++i) {
      const Text& name = node_.bodies[i].block;
      const Block& block = around_.blocks.find(name.text)->second;
      const size_t takes = block.in.size(), gives = block.out.size();
      if (takes > node_.in.size() + (is_loop() ? 1 : 0)) {
        return wrong_count(
            name,
            fmt::format("block '{}' has {}, but 'in' names {}", name.text, count(takes, "input"),
                        node_.in.size()),
            is_loop() ? "it takes the first of 'in', or the number of the iteration and then all"
                      : "it takes the first of 'in', as many as it has inputs");
      }
      most = std::max(most, std::min(takes, node_.in.size()));
      if (is_loop() && i == 1) {
        if (gives == 1) continue;
        return wrong_count(name, fmt::format("the condition '{}' has {}: it gives one, a b1",
                                             name.text, count(gives, "output")));
      }
      if (gives != node_.out.size()) {
        std::string out = fmt::format("'out' names {}", carried);
        if (node_.stacked > 0) out += fmt::format(" and 'stacked' {}", node_.stacked);
        return wrong_count(
            name, fmt::format("block '{}' has {}, but {}", name.text, count(gives, "output"), out),
            is_loop() ? "it gives the next value of each of 'out', then the rows"
                      : "every side gives all of 'out'");
      }
    }
    if (most == node_.in.size()) return true;
    const Operand& extra = node_.in[most];
    return wrong_count({{}, extra.place},
                       fmt::format("no block of this node takes '{}': they take {} at most",
                                   extra.name, count(most, "value")));
  }

  const Item& item_;
  const Surroundings& around_;
  Types& types_;
  Report& report_;
  Node& node_;
  bool known_keys_ = true;
};

}  // namespace

std::vector<Text> blocks_of(const Node& n) {
  if (n.kind == Kind::block) return {{n.target, n.place}};
  std::vector<Text> blocks;
  for (const BodyUse& b : n.bodies) blocks.push_back(b.block);
  return blocks;
}

bool read_region_attrs(const Item& item, const Surroundings& around, Types& types, Report& report,
                       Node& node) {
  return RegionReader(item, around, types, report, node).read();
}

bool read_message_attrs(const Item& item, Report& report, Node& node) {
  bool good = true;
  if (node.kind == Kind::check) {
    good = report.check_keys(item, {"check", "in", "label", "low", "high"}, "a check");
    const bool range = node.target == "range";
    if (!range && node.target != "finite") {
      report.error("E0107", node.place,
                   fmt::format("'check' is finite or range, not '{}'", node.target),
                   suggest(node.target, {"finite", "range"}));
      good = false;
    }
    for (const auto& [key, to] : {std::pair("low", &node.low), {"high", &node.high}}) {
      const Entry* e = item.find(key);
      if (!e) continue;
      if (!range) {
        report.error("E0107", e->place, fmt::format("'{}' is for check = \"range\"", key));
        good = false;
      } else if (report.expect_number(e->value, Item::Kind::real, fmt::format("'{}'", key))) {
        *to = e->value.real;
      } else {
        good = false;
      }
    }
    if (good && range && !node.low && !node.high) {
      report.error("E0103", node.place, "a range needs the key 'low' or 'high'",
                   "as in low = 0, high = 1");
      good = false;
    }
    if (!item.find("in")) {
      report.error("E0103", node.place, "this node needs the key 'in'");
      return false;
    }
    if (good && node.in.size() != 1) {
      report.error("E0504", node.place,
                   fmt::format("a check takes 1 value, but 'in' has {}", node.in.size()));
      good = false;
    }
  } else {
    const char* key = node.kind == Kind::print ? "print" : "item";
    good = report.check_keys(item, {key, "label"},
                             fmt::format("{} {}", node.kind == Kind::print ? "a" : "an", key));
    if (!report.check_name(node.target, node.place, "a value")) return false;
    node.in = {{node.place, node.target}};
  }
  const Entry* label = item.find("label");
  if (!label) return good;
  if (!report.expect(label->value, Item::Kind::string, "'label'")) return false;
  node.label = label->value.text;
  const bool shown = std::none_of(node.label.begin(), node.label.end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
  });
  if (!node.label.empty() && shown) return good;
  report.error("E0107", label->value.place, "a label is one line without control characters");
  return false;
}

}  // namespace braid::toml_reader
