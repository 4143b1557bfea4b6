// The sections of a model file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "frontend/toml_internal.hpp"
#include "ir/program.hpp"

namespace braid::toml_reader {
namespace {

constexpr int64_t kMaxNodes = 1'000'000;
/// Expansion walks blocks in blocks by recursion.
constexpr size_t kMaxBlockDepth = 500;

/// `shape`, `dtype` and, for a param, `init` and `scale`.
Declaration read_declaration(const Entry& e, bool param, Types& types, Report& report) {
  Declaration d{{e.key, e.place}, {}, {}};
  const std::string where = fmt::format("{} '{}'", param ? "param" : "input", e.key);
  report.check_name(e.key, e.place, param ? "a param" : "an input");
  if (!report.expect(e.value, Item::Kind::table, where,
                     fmt::format("as in {} = {{ dtype = \"f32\", shape = [4, \"B\"] }}", e.key))) {
    return d;
  }
  const bool keys = param ? report.check_keys(e.value, {"dtype", "shape", "init", "scale"}, where)
                          : report.check_keys(e.value, {"dtype", "shape"}, where);
  // With a misspelt key the one that it stands for is not missing as well.
  const Entry* dtype = keys ? report.need(e.value, "dtype", where) : e.value.find("dtype");
  const Entry* shape = keys ? report.need(e.value, "shape", where) : e.value.find("shape");
  const std::optional<DType> t = dtype ? types.dtypes.read(dtype->value, "'dtype'") : std::nullopt;
  const auto s = shape ? types.dims.shape(shape->value, "'shape'") : std::nullopt;
  if (t && s && keys) d.type = TypeArg{*t, *s};
  if (const Entry* init = e.value.find("init");
      init && report.expect(init->value, Item::Kind::string, "'init'")) {
    const std::vector<std::string> names(ir::kInitNames.begin(), ir::kInitNames.end());
    const auto it = std::find(names.begin(), names.end(), init->value.text);
    if (it == names.end()) {
      report.error("E0107", init->value.place,
                   fmt::format("'init' is normal, zeros or ones, not '{}'", init->value.text),
                   suggest(init->value.text, names));
    } else {
      d.options.init = static_cast<ir::Init>(it - names.begin());
    }
  }
  if (const Entry* scale = e.value.find("scale");
      scale && report.expect(scale->value, Item::Kind::real, "'scale'")) {
    if (scale->value.real >= 0 && scale->value.real < 1e30) {
      d.options.scale = scale->value.real;
    } else {
      report.error("E0107", scale->value.place, "'scale' is a standard deviation, 0 or above");
    }
  }
  return d;
}

/// `fc1.weight = {..}` makes a table fc1 with a key weight. Reports that, and declares the names
/// that were meant, without types; false if the entry is something else.
bool unquoted_name(const Entry& e, const std::string& name, std::vector<Declaration>& list,
                   Report& report) {
  const auto is_table = [](const Entry& inner) { return inner.value.kind == Item::Kind::table; };
  const std::vector<Entry>& inner = e.value.entries;
  if (e.value.kind != Item::Kind::table || e.value.find("dtype") || e.value.find("shape") ||
      std::none_of(inner.begin(), inner.end(), is_table)) {
    return false;
  }
  for (const Entry& i : inner) {
    const std::string full = name + "." + i.key;
    if (!is_table(i) || unquoted_name(i, full, list, report)) continue;
    report.error("E0102", i.place, fmt::format("unknown key '{}' in '{}'", i.key, name),
                 fmt::format("a name with dots stands in quotes: \"{}\" = {{ .. }}", full));
    list.push_back({{full, i.place}, {}, {}});
  }
  return true;
}

std::vector<Declaration> read_declarations(const Item& table, std::string_view key, Types& types,
                                           Report& report) {
  std::vector<Declaration> list;
  const Entry* e = table.find(key);
  if (!e) return list;
  if (!report.expect(
          e->value, Item::Kind::table, fmt::format("'{}'", key),
          fmt::format("as in [{}] x = {{ dtype = \"f32\", shape = [4, \"B\"] }}", key))) {
    report.lose_section();
    return list;
  }
  for (const Entry& d : e->value.entries) {
    if (!unquoted_name(d, d.key, list, report)) {
      list.push_back(read_declaration(d, key == "params", types, report));
    }
  }
  return list;
}

/// A block without its nodes, which may use any block.
Block read_signature(const Entry& e, Types& types, Report& report) {
  Block block;
  block.name = {e.key, e.place};
  const std::string where = fmt::format("block '{}'", e.key);
  report.check_name(e.key, e.place, "a block");
  const size_t before = report.list.size();
  if (report.expect(e.value, Item::Kind::table, where) &&
      report.check_keys(e.value, {"in", "out", "params", "nodes"}, where)) {
    const auto names = [&](std::string_view key, std::vector<Text>& list) {
      const Entry* n = report.need(e.value, key, where);
      auto read = n ? read_names(n->value, fmt::format("'{}'", key), report) : std::nullopt;
      if (read) list = std::move(*read);
    };
    names("in", block.in);
    names("out", block.out);
    report.need(e.value, "nodes", where);
    block.bad = report.list.size() > before;
    block.params = read_declarations(e.value, "params", types, report);
  } else {
    block.bad = true;
  }
  return block;
}

Names names_of(const std::vector<Declaration>& inputs, const std::vector<Declaration>& params,
               Report& report) {
  Names names;
  for (const Declaration& d : inputs) define(names, d.name, report);
  for (const Declaration& d : params) define(names, d.name, report);
  return names;
}

/// The value must be known; `user` says who asks.
bool check_known(const Names& names, const Text& t, std::string_view user, Report& report) {
  if (names.find(t.text) != names.end()) return true;
  if (report.names_lost) return false;
  std::vector<std::string> known;
  for (const auto& [name, place] : names) known.push_back(name);
  report.unknown_name(t, user, known);
  return false;
}

/// Every name that the graph may define, right or wrong.
std::set<std::string> outer_names(const Item& root, const Model& model) {
  std::set<std::string> names;
  for (const Declaration& d : model.inputs) names.insert(d.name.text);
  for (const ScalarDeclaration& d : model.scalars) names.insert(d.name.text);
  for (const Declaration& d : model.params) names.insert(d.name.text);
  const Entry* graph = root.find("graph");
  const Entry* nodes = graph ? graph->value.find("nodes") : nullptr;
  for (const Item& node : nodes ? nodes->value.items : std::vector<Item>{}) {
    for (const char* key : {"out", "stacked"}) {
      const Entry* out = node.find(key);
      if (!out) continue;
      names.insert(out->value.text);
      for (const Item& name : out->value.items) names.insert(name.text);
    }
  }
  return names;
}

void read_body(Block& block, const Item& item, Model& model, Types& types, Report& report) {
  if (block.bad) return;
  Names names;
  for (const Text& t : block.in) define(names, t, report);
  for (const Declaration& d : block.params) define(names, d.name, report);
  std::set<std::string> inputs;
  for (const Text& t : block.in) inputs.insert(t.text);
  block.list =
      read_nodes(item.find("nodes")->value,
                 {model.blocks, block.params, std::move(inputs), model.kernels}, types, report);
  connect(block.list, names, report);
  for (const Text& t : block.out) {
    check_known(names, t, fmt::format("in 'out' of block '{}'", block.name.text), report);
  }
}

/// Refuses blocks that contain themselves and models that grow out of bounds.
class BlockSizes {
 public:
  BlockSizes(Model& model, Report& report) : model_(model), report_(report) {}

  void check() {
    // In the order of the file, so that a cycle is reported where it first appears.
    std::vector<Block*> blocks;
    for (auto& [name, block] : model_.blocks) blocks.push_back(&block);
    std::sort(blocks.begin(), blocks.end(), [](const Block* a, const Block* b) {
      return a->name.place.line < b->name.place.line;
    });
    for (Block* b : blocks) size(*b);
    size(model_.graph);
  }

 private:
  struct Size {
    int64_t nodes = 0;
    size_t depth = 0;  // blocks in blocks, itself included
  };

  Size size(NodeList& list) {
    Size total;
    for (Node& n : list.nodes) {
      int64_t nodes = 1;
      if (!n.bad) {
        const std::optional<Size> inner = of_blocks(n);
        if (!inner) {
          n.bad = true;
          continue;
        }
        total.depth = std::max(total.depth, inner->depth);
        nodes = n.kind == Node::Kind::block ? inner->nodes : inner->nodes + 1;
        nodes *= std::max<int64_t>(n.repeat, 1);
      }
      total.nodes += nodes;
      if (total.nodes > kMaxNodes) {
        report_.error(
            "E0506", n.place,
            fmt::format("with all its blocks the model has more than {} nodes", kMaxNodes));
        n.bad = true;
        total.nodes -= nodes;
      }
    }
    return total;
  }

  /// Of the blocks that make up the node; nothing after a mistake.
  std::optional<Size> of_blocks(const Node& n) {
    Size all;
    for (const Text& name : blocks_of(n)) {
      const auto it = model_.blocks.find(name.text);
      if (it == model_.blocks.end()) return std::nullopt;
      if (std::find(path_.begin(), path_.end(), &it->second) != path_.end()) {
        report_cycle(it->second, name.place);
        return std::nullopt;
      }
      // Above in the walk and below as counted: blocks come in any order.
      const Size inner = path_.size() < kMaxBlockDepth ? size(it->second) : Size{0, 0};
      if (path_.size() + inner.depth >= kMaxBlockDepth) {
        report_.error("E0506", name.place,
                      fmt::format("blocks are nested deeper than {}", kMaxBlockDepth));
        return std::nullopt;
      }
      all.depth = std::max(all.depth, inner.depth);
      all.nodes += inner.nodes;
    }
    return all;
  }

  Size size(Block& block) {
    if (const auto it = sizes_.find(&block); it != sizes_.end()) return it->second;
    path_.push_back(&block);
    Size total = size(block.list);
    ++total.depth;
    path_.pop_back();
    return sizes_[&block] = total;
  }

  void report_cycle(const Block& again, const Place& place) {
    std::vector<std::string> steps;
    const auto begin = std::find(path_.begin(), path_.end(), &again);
    for (auto it = begin; it != path_.end(); ++it) {
      const Block* next = it + 1 == path_.end() ? &again : *(it + 1);
      steps.push_back(fmt::format("'{}' uses '{}'", (*it)->name.text, next->name.text));
    }
    report_.error("E0503", place,
                  fmt::format("a block cannot contain itself: {}", fmt::join(steps, ", ")));
  }

  Model& model_;
  Report& report_;
  std::vector<const Block*> path_;
  std::map<const Block*, Size> sizes_;
};

void read_outputs(const Item& root, const Names& names, Model& model, Report& report) {
  const Entry* e = root.find("outputs");
  if (!e || (e->value.kind == Item::Kind::table && e->value.entries.empty())) {
    if (e || !report.section_lost) {
      report.error("E0502", e ? e->place : root.place,
                   "the model has no outputs; name them as in [outputs] y = \"y\"");
    }
    return;
  }
  if (!report.expect(e->value, Item::Kind::table, "'outputs'", "as in [outputs] y = \"y\"")) return;
  for (const Entry& o : e->value.entries) {
    report.check_name(o.key, o.place, "an output");
    if (!report.expect(o.value, Item::Kind::string, fmt::format("output '{}'", o.key),
                       fmt::format("name one value, as in {} = \"h\"", o.key))) {
      continue;
    }
    const Text value{o.value.text, o.value.place};
    if (check_known(names, value, fmt::format("for output '{}'", o.key), report)) {
      model.outputs.push_back({{o.key, o.place}, value});
    }
  }
}

}  // namespace

Sections check_root(const Item& root, Report& report) {
  const Entry* format = root.find("format");
  if (format && (format->value.kind != Item::Kind::integer || format->value.integer != 1)) {
    // In another format the rest may mean anything.
    report.error("E0105", format->value.place, "this version of Braid reads 'format = 1' only");
    if (format->value.kind == Item::Kind::integer) throw Error(std::move(report.list));
  }
  const std::initializer_list<std::string_view> keys = {
      "format", "name",  "dims",    "dtypes",  "inputs",  "scalars", "params",
      "block",  "graph", "outputs", "weights", "compile", "kernels"};
  bool known = true;
  for (const Entry& e : root.entries) {
    if (std::find(keys.begin(), keys.end(), e.key) != keys.end()) continue;
    known = false;
    report.error("E0102", e.place, fmt::format("unknown key '{}' in a model file", e.key),
                 suggest_section(e.key, {keys.begin(), keys.end()}));
    if (e.value.kind == Item::Kind::table || e.value.kind == Item::Kind::array) {
      report.lose_section();
    }
  }
  // A misspelt key was reported already.
  if (!format && known) report.error("E0105", root.place, "a model file begins with 'format = 1'");
  const auto table = [&](std::string_view key) -> const Item* {
    const Entry* e = root.find(key);
    if (!e) return nullptr;
    if (report.expect(e->value, Item::Kind::table, fmt::format("'{}'", key))) return &e->value;
    report.lose_section();
    return nullptr;
  };
  return {table("dims"), table("dtypes")};
}

Model read_model(const Item& root, Report& report, Types& types) {
  Model model;
  model.name = read_string(root, "name", report).value_or("model");
  model.inputs = read_declarations(root, "inputs", types, report);
  model.scalars = read_scalars(root, types, report);
  model.params = read_declarations(root, "params", types, report);

  model.kernels = read_kernels(root, types, report);
  const Entry* blocks = root.find("block");
  if (blocks && report.expect(blocks->value, Item::Kind::table, "'block'")) {
    for (const Entry& e : blocks->value.entries) {
      model.blocks.emplace(e.key, read_signature(e, types, report));
    }
    report.outer = outer_names(root, model);
    for (const Entry& e : blocks->value.entries) {
      read_body(model.blocks.at(e.key), e.value, model, types, report);
    }
  }

  report.outer.clear();
  Names names = names_of(model.inputs, model.params, report);
  for (const ScalarDeclaration& d : model.scalars) define(names, d.name, report);
  const Entry* graph = root.find("graph");
  if (!graph && !report.section_lost) {
    report.error("E0103", root.place, "a model file needs the section 'graph'",
                 "as in [graph] nodes = [ { out = \"y\", op = \"relu\", in = [\"x\"] } ]");
  }
  const Entry* nodes = nullptr;
  if (graph && report.expect(graph->value, Item::Kind::table, "'graph'")) {
    const bool keys = report.check_keys(graph->value, {"nodes"}, "[graph]");
    nodes = keys ? report.need(graph->value, "nodes", "[graph]") : graph->value.find("nodes");
  }
  if (nodes) {
    std::set<std::string> inputs;
    for (const Declaration& d : model.inputs) inputs.insert(d.name.text);
    for (const ScalarDeclaration& d : model.scalars) inputs.insert(d.name.text);
    model.graph =
        read_nodes(nodes->value, {model.blocks, model.params, std::move(inputs), model.kernels},
                   types, report);
  } else {
    report.names_lost = true;
  }
  connect(model.graph, names, report);
  BlockSizes(model, report).check();
  read_outputs(root, names, model, report);
  model.compile = read_compile(root, report);
  model.weights = read_weights(root, report);
  return model;
}

}  // namespace braid::toml_reader
