// Nodes, each by itself: keys, ops, attributes, numbers of operands and results.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/toml_internal.hpp"

namespace braid::toml_reader {
namespace {

constexpr int64_t kMaxRepeat = 10000;

const std::map<std::string_view, Node::Kind> kKinds{
    {"op", Node::Kind::op},
    {"block", Node::Kind::block},
    {"assign", Node::Kind::assign},
    {"update", Node::Kind::update},
    {"host", Node::Kind::host},
    {"library", Node::Kind::library},
    {"kernel", Node::Kind::kernel},
    {"if", Node::Kind::branch_if},
    {"switch", Node::Kind::branch_switch},
    {"while", Node::Kind::loop_while},
    {"loop", Node::Kind::loop},
    {"print", Node::Kind::print},
    {"item", Node::Kind::item},
    {"check", Node::Kind::check},
};
constexpr std::string_view kKindNames =
    "op, block, assign, update, host, library, kernel, if, switch, while, loop, print, item and "
    "check";

std::string count(int64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

class NodeReader {
 public:
  NodeReader(const Surroundings& around, Types& types, Report& report)
      : around_(around), types_(types), report_(report) {}

  Node read(const Item& item) {
    Node node;
    node.place = item.place;
    if (!report_.expect(item, Item::Kind::table, "a node")) {
      report_.names_lost = true;
      return node;
    }
    const size_t before = report_.list.size();
    const Entry* kind = find_kind(item);
    if (!kind) {
      read_results(item, node);
      return node;
    }
    node.place = kind->value.place;
    node.target = kind->value.text;
    node.kind = kKinds.find(kind->key)->second;
    const bool complete = kind->key == "op"        ? read_op(item, node)
                          : kind->key == "block"   ? read_block(item, node)
                          : kind->key == "host"    ? read_host(item, node)
                          : kind->key == "library" ? read_library(item, node)
                          : kind->key == "kernel"  ? read_kernel(item, node)
                          : is_region(node.kind)   ? read_region(item, node)
                          : is_message(node.kind)  ? read_message(item, node)
                                                   : read_state(item, node, kind->key);
    if (const Entry* e = item.find("graph")) {
      node.outside = report_.expect(e->value, Item::Kind::boolean, "'graph'") && !e->value.boolean;
    }
    // Not every mistake is reported: a name may be lost for another reason.
    node.bad = !complete || report_.list.size() > before;
    return node;
  }

 private:
  /// The entry that says what the node is: exactly one.
  const Entry* find_kind(const Item& item) {
    std::vector<std::string> kinds;
    for (const auto& [key, kind] : kKinds) kinds.emplace_back(key);
    const Entry* found = nullptr;
    std::string suggestion;
    Place place = item.place;
    for (const Entry& e : item.entries) {
      if (std::find(kinds.begin(), kinds.end(), e.key) == kinds.end()) {
        // Not the list of all: the sentence has it.
        const std::string s = suggest_key(e.key, kinds);
        if (suggestion.empty() && s.rfind("did", 0) == 0) {
          suggestion = s;
          place = e.place;
        }
        continue;
      }
      if (found) {
        report_.error("E0106", e.place,
                      fmt::format("a node is one of {}, but this one is both {} and {}", kKindNames,
                                  found->key, e.key));
        return nullptr;
      }
      found = &e;
    }
    if (!found) {
      report_.error("E0106", place, fmt::format("a node needs one of the keys {}", kKindNames),
                    suggestion);
      return nullptr;
    }
    if (found->key == "loop") return found;  // a number, or a dim
    return report_.expect(found->value, Item::Kind::string, fmt::format("'{}'", found->key))
               ? found
               : nullptr;
  }

  /// `out`, if there is one: a name or a list of names; false after a mistake.
  bool read_results(const Item& item, Node& node) {
    const Entry* e = item.find("out");
    if (!e) {
      if (node.kind == Node::Kind::op || node.kind == Node::Kind::block) report_.names_lost = true;
      return true;
    }
    std::optional<std::vector<Text>> names = read_names(e->value, "'out'", report_);
    if (!names) {
      report_.names_lost = true;
      return false;
    }
    node.out = std::move(*names);
    return true;
  }

  /// A name, or a list of names and, where allowed, numbers.
  std::optional<std::vector<Operand>> read_operands(const Entry& e) {
    std::vector<Operand> operands;
    const auto one = [&](const Item& item) {
      if (item.kind == Item::Kind::string) {
        if (!report_.check_name(item.text, item.place, "a value")) return false;
        operands.push_back({item.place, item.text});
        return true;
      }
      if (item.kind == Item::Kind::integer || item.kind == Item::Kind::real) {
        operands.push_back({item.place, {}, item.real});
        return true;
      }
      std::string names;
      for (const Entry& v : item.entries) {
        if (v.value.kind != Item::Kind::string) continue;
        names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", v.value.text);
      }
      report_.error(
          "E0104", item.place, fmt::format("'{}' must be a name or a list of names", e.key),
          names.empty() ? "" : fmt::format("operands go by position: {} = [{}]", e.key, names));
      return false;
    };
    if (e.value.kind != Item::Kind::array) {
      return one(e.value) ? std::optional(operands) : std::nullopt;
    }
    bool good = true;
    for (const Item& item : e.value.items) good = one(item) && good;
    return good ? std::optional(operands) : std::nullopt;
  }

  /// `in`; false after a mistake.
  bool read_in(const Item& item, Node& node, bool numbers) {
    const Entry* e = item.find("in");
    if (!e) return true;
    std::optional<std::vector<Operand>> operands = read_operands(*e);
    if (!operands) return false;
    node.in = std::move(*operands);
    if (numbers) return true;
    for (const Operand& o : node.in) {
      if (!o.name.empty()) continue;
      report_.error("E0104", o.place, fmt::format("'{}' takes names, not numbers", node.target));
      return false;
    }
    return true;
  }

  bool wrong_count(const Node& node, std::string message, std::string suggestion = {}) {
    report_.error("E0504", node.place, std::move(message), std::move(suggestion));
    return false;
  }

  /// The node's own place names a missing key better than its braces do.
  bool need(const Item& item, const Node& node, std::string_view key) {
    if (item.find(key)) return true;
    report_.error("E0103", node.place, fmt::format("this node needs the key '{}'", key),
                  key == "at" ? "where the part begins, a number or scalar for each axis: as in "
                                "at = [\"pos\", 0]"
                              : "");
    return false;
  }

  bool read_op(const Item& item, Node& node) {
    const bool results = read_results(item, node);
    node.op = find_op(node.target);
    if (!node.op) {
      const Entry* in = item.find("in");
      const bool list = in && in->value.kind == Item::Kind::array;
      report_.error("E0202", node.place, fmt::format("unknown op '{}'", node.target),
                    suggest_op(node.target, list ? in->value.items.size() : 1));
    }
    const bool attrs = node.op && read_attrs(*node.op, item, types_, report_, node.attrs);
    // With an unknown op or a misspelt key the rest would be guesses.
    if (!read_in(item, node, !node.op || node.op->numbers) || !attrs || !results) return false;
    if (!need(item, node, "out")) return false;
    const auto results_of_op = static_cast<size_t>(node.op->results);
    if (node.out.empty() || node.out.size() > results_of_op) {
      return wrong_count(node, fmt::format("op '{}' has {}, but 'out' names {}", node.target,
                                           count(node.op->results, "result"), node.out.size()));
    }
    const Entry* rhs = item.find("rhs");
    if (rhs) node.in.push_back({rhs->value.place, {}, rhs->value.real});
    const auto given = static_cast<int>(node.in.size());
    const OpSpec& op = *node.op;
    if (given < op.min_in || (op.max_in >= 0 && given > op.max_in)) {
      std::string takes = count(op.min_in, "operand");
      if (op.max_in < 0) takes = fmt::format("{} or more operands", op.min_in);
      if (op.max_in > op.min_in) takes = fmt::format("{} or {} operands", op.min_in, op.max_in);
      std::string advice;
      if (given == 1 && find_op("reduce_" + op.name)) {
        advice = fmt::format("did you mean 'reduce_{}'?", op.name);
      } else if (op.max_in == 2 && given > 2 && op.numbers) {
        advice = "use one node for each two";
      }
      return wrong_count(node,
                         fmt::format("op '{}' takes {}, but got {}{}", op.name, takes, given,
                                     rhs ? " with rhs" : ""),
                         std::move(advice));
    }
    if (given > 0 && std::all_of(node.in.begin(), node.in.end(),
                                 [](const Operand& o) { return o.name.empty(); })) {
      report_.error("E0104", node.place,
                    fmt::format("op '{}' needs a name among its operands, because numbers have no "
                                "dtype; for a constant tensor use op 'full'",
                                op.name));
      return false;
    }
    return true;
  }

  static bool shown(const std::string& name) {
    return !name.empty() && std::none_of(name.begin(), name.end(), [](char c) {
      return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
    });
  }

  bool read_host(const Item& item, Node& node) {
    const bool results = read_results(item, node);
    const bool keys = report_.check_keys(item, {"host", "in", "out", "results", "pure", "way"},
                                         "a node with a host");
    if (!shown(node.target)) {
      report_.error("E0107", node.place, "'host' names a function of the host's",
                    "the name that it is registered under, without control characters");
      return false;
    }
    return read_in(item, node, false) && keys && results &&
           read_host_attrs(item, types_, report_, node);
  }

  bool read_library(const Item& item, Node& node) {
    const bool results = read_results(item, node);
    const bool keys = report_.check_keys(
        item, {"library", "in", "out", "inout", "results", "workspace", "reference", "graph"},
        "a node with a library");
    if (!shown(node.target)) {
      report_.error("E0107", node.place, "'library' names a function",
                    "the name that it is registered under, without control characters");
      return false;
    }
    if (!read_in(item, node, false)) return false;
    if (const Entry* e = item.find("inout")) {
      const std::optional<std::vector<Operand>> changed = read_operands(*e);
      if (!changed) return false;
      node.inout = changed->size();
      for (size_t i = 0; i < changed->size(); ++i) {
        const std::string& name = (*changed)[i].name;
        const bool param = std::any_of(around_.params.begin(), around_.params.end(),
                                       [&](const Declaration& d) { return d.name.text == name; });
        if (param) node.changes.push_back({name, i});
      }
      node.in.insert(node.in.end(), changed->begin(), changed->end());
    }
    if (!read_library_attrs(item, types_, report_, node)) return false;
    // New values are named behind the results.
    for (Node::Change& c : node.changes) c.out += node.results.size();
    return keys && results;
  }

  bool read_kernel(const Item& item, Node& node) {
    const bool results = read_results(item, node);
    const bool operands = read_in(item, node, false);
    return results && operands && check_kernel_node(item, around_, report_, node);
  }

  bool read_region(const Item& item, Node& node) {
    const bool results = read_results(item, node);
    const bool operands = read_in(item, node, false);
    return read_region_attrs(item, around_, types_, report_, node) && results && operands;
  }

  bool read_message(const Item& item, Node& node) {
    const bool operands = read_in(item, node, false);
    return read_message_attrs(item, report_, node) && operands;
  }

  bool read_state(const Item& item, Node& node, const std::string& key) {
    const bool update = key == "update";
    const bool results = read_results(item, node);
    const bool keys =
        update ? report_.check_keys(item, {"update", "in", "at", "out", "graph"}, "an update")
               : report_.check_keys(item, {"assign", "in", "out", "graph"}, "an assign");
    const bool known = check_param(node);
    if (!read_in(item, node, false) || !keys || !known || !results) return false;
    if (!need(item, node, "in") || (update && !need(item, node, "at"))) return false;
    if (node.in.size() != 1) {
      return wrong_count(node,
                         fmt::format("{} takes 1 value, but 'in' has {}", key, node.in.size()));
    }
    if (node.out.size() > 1) {
      return wrong_count(node,
                         fmt::format("{} has 1 result, but 'out' names {}", key, node.out.size()));
    }
    if (!update) return true;
    std::optional<std::vector<Operand>> at = read_operands(*item.find("at"));
    if (at) node.at = std::move(*at);
    return at.has_value();
  }

  bool check_param(const Node& node) {
    std::vector<std::string> known;
    for (const Declaration& p : around_.params) {
      if (p.name.text == node.target) return true;
      known.push_back(p.name.text);
    }
    if (around_.inputs.count(node.target) > 0) {
      report_.error("E0304", node.place,
                    fmt::format("'{}' is an input, and only a param can change", node.target),
                    "what lasts from launch to launch is declared in params");
      return false;
    }
    if (report_.section_lost) return false;
    report_.error("E0204", node.place, fmt::format("unknown param '{}'", node.target),
                  suggest(node.target, known));
    return false;
  }

  bool read_block(const Item& item, Node& node) {
    const bool results = read_results(item, node);
    const bool keys = report_.check_keys(
        item, {"block", "in", "out", "repeat", "name", "share", "graph"}, "a node with a block");
    const std::map<std::string, Block>& blocks = around_.blocks;
    const auto it = blocks.find(node.target);
    if (it == blocks.end() && !report_.section_lost) {
      std::vector<std::string> known;
      for (const auto& [name, block] : blocks) known.push_back(name);
      report_.error("E0203", node.place, fmt::format("unknown block '{}'", node.target),
                    suggest(node.target, known));
    }
    const bool operands = read_in(item, node, false);
    if (!keys || it == blocks.end() || !results) return false;
    const Block& block = it->second;
    if (!need(item, node, "out")) return false;
    read_repeat(item, node, block);
    if (!operands || block.bad) return false;
    const std::string name = fmt::format("block '{}'", node.target);
    if (node.in.size() != block.in.size()) {
      return wrong_count(
          node, fmt::format("{} has {}, but 'in' names {}", name,
                            count(static_cast<int64_t>(block.in.size()), "input"), node.in.size()));
    }
    if (node.out.size() != block.out.size()) {
      return wrong_count(node, fmt::format("{} has {}, but 'out' names {}", name,
                                           count(static_cast<int64_t>(block.out.size()), "output"),
                                           node.out.size()));
    }
    if (node.repeat > 1 && block.out.size() > block.in.size()) {
      return wrong_count(node,
                         fmt::format("{} cannot be repeated: its {} cannot become the {} of the "
                                     "next copy",
                                     name, count(static_cast<int64_t>(block.out.size()), "output"),
                                     count(static_cast<int64_t>(block.in.size()), "input")));
    }
    return true;
  }

  void read_repeat(const Item& item, Node& node, const Block& block) {
    node.scope = node.out.empty() ? node.target : node.out[0].text;
    const Entry* repeat = item.find("repeat");
    if (repeat && report_.expect_number(repeat->value, Item::Kind::integer, "'repeat'")) {
      node.repeat = repeat->value.integer;
      if (node.repeat < 1 || node.repeat > kMaxRepeat) {
        report_.error("E0107", repeat->value.place,
                      fmt::format("'repeat' is from 1 to {}, not {}", kMaxRepeat, node.repeat));
        node.repeat = 1;
      }
    }
    const Entry* name = item.find("name");
    if (name && report_.expect(name->value, Item::Kind::string, "'name'")) {
      constexpr std::string_view kNumber = "{i}";
      std::string text = name->value.text;
      const bool numbered =
          text.size() > kNumber.size() && text.substr(text.size() - kNumber.size()) == kNumber;
      if (numbered) text.resize(text.size() - kNumber.size());
      if (repeat && !numbered) {
        report_.error("E0107", name->value.place,
                      "the 'name' of a repeated block ends in {i}, the number of the copy",
                      fmt::format("as in name = \"{}{{i}}\"", text));
      } else if (numbered && !repeat) {
        report_.error("E0107", name->value.place, "{i} in 'name' needs the key 'repeat'");
      } else if (report_.check_name(text, name->value.place, "a block's copy")) {
        node.scope = text;
      }
    }
    const Entry* share = item.find("share");
    if (!share) return;
    if (!repeat) report_.error("E0107", share->place, "'share' needs the key 'repeat'");
    std::vector<std::string> known;
    for (const Declaration& p : block.params) known.push_back(p.name.text);
    const std::optional<std::vector<Text>> names = read_names(share->value, "'share'", report_);
    if (!names) return;
    for (const Text& t : *names) {
      if (std::find(known.begin(), known.end(), t.text) != known.end()) {
        node.share.insert(t.text);
      } else if (!block.bad) {
        report_.error("E0204", t.place,
                      fmt::format("block '{}' has no param '{}'", node.target, t.text),
                      suggest(t.text, known));
      }
    }
  }

  const Surroundings& around_;
  Types& types_;
  Report& report_;
};

}  // namespace

std::optional<std::vector<Text>> read_names(const Item& item, std::string_view what,
                                            Report& report) {
  std::vector<Text> names;
  const auto one = [&](const Item& i) {
    if (i.kind != Item::Kind::string) {
      report.error("E0104", i.place, fmt::format("{} must be a name or a list of names", what));
      return false;
    }
    if (!report.check_name(i.text, i.place, "a value")) return false;
    names.push_back({i.text, i.place});
    return true;
  };
  if (item.kind != Item::Kind::array) return one(item) ? std::optional(names) : std::nullopt;
  bool good = true;
  for (const Item& i : item.items) good = one(i) && good;
  return good ? std::optional(names) : std::nullopt;
}

NodeList read_nodes(const Item& nodes, const Surroundings& around, Types& types, Report& report) {
  NodeList list;
  if (!report.expect(nodes, Item::Kind::array, "'nodes'", "as in nodes = [ { .. }, { .. } ]")) {
    report.names_lost = true;
    return list;
  }
  NodeReader reader(around, types, report);
  for (const Item& item : nodes.items) {
    Node node = reader.read(item);
    std::vector<std::string> changes;
    for (const Node::Change& c : node.changes) changes.push_back(c.param);
    if (node.kind == Node::Kind::assign || node.kind == Node::Kind::update) {
      changes.push_back(node.target);
    }
    for (const std::string& param : changes) {
      if (list.assigned.insert(param).second) continue;
      report.error("E0505", node.place,
                   fmt::format("a second node changes the param '{}'; one may, and its 'out' names "
                               "the new value",
                               param));
      node.bad = true;
    }
    list.nodes.push_back(std::move(node));
  }
  return list;
}

}  // namespace braid::toml_reader
