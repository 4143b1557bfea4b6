// What is legal and still seldom meant. A warning says what to write so that it goes away.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/toml_internal.hpp"

namespace braid::toml_reader {
namespace {

using NameSet = std::set<std::string, std::less<>>;

Diagnostic warning(std::string_view code, const Place& place, std::string message,
                   std::string suggestion) {
  Diagnostic d;
  d.severity = Severity::warning;
  d.code = code;
  d.place = place;
  d.message = std::move(message);
  d.suggestion = std::move(suggestion);
  return d;
}

/// One graph or block: who makes and who uses what.
class ListWarnings {
 public:
  /// `results`: what the list hands out. `inputs`: what comes anew with every launch.
  ListWarnings(const NodeList& list, const std::vector<Text>& results, NameSet inputs,
               std::vector<Diagnostic>& out)
      : list_(list), results_(results), inputs_(std::move(inputs)), out_(out) {
    for (size_t i = 0; i < list.nodes.size(); ++i) {
      for (const Text& t : list.nodes[i].out) producer_.emplace(t.text, i);
      for (const Operand* o : operands(list.nodes[i])) users_[o->name].insert(i);
    }
    for (const Text& t : results) users_[t.text].insert(kResult);
  }

  bool uses(const std::string& name) const {
    return users_.count(name) > 0 || list_.assigned.count(name) > 0;
  }

  /// E0507.
  void old_values() {
    for (size_t i = 0; i < list_.nodes.size(); ++i) {
      const Node& n = list_.nodes[i];
      if (n.kind == Node::Kind::assign || n.kind == Node::Kind::update) {
        old_value(i, n.target, n.out.empty() ? nullptr : &n.out[0]);
      }
      // A kernel's new values are the last ones that 'out' names, if it names them.
      for (size_t k = 0; k < n.changes.size(); ++k) {
        old_value(i, n.changes[k].param,
                  n.changes[k].out < n.out.size() ? &n.out[n.changes[k].out] : nullptr);
      }
    }
  }

  /// E0508 for results. `changes_state` tells whether a block does more than give results.
  template <class ChangesState>
  void unused_results(const ChangesState& changes_state) {
    for (const Node& n : list_.nodes) {
      const bool region = is_region(n.kind), block = n.kind == Node::Kind::block || region;
      const bool pure = n.kind == Node::Kind::host && n.pure;
      const bool kernel =
          (n.kind == Node::Kind::kernel || n.kind == Node::Kind::library) && n.changes.empty();
      if (n.out.empty() || !(block || pure || kernel || n.kind == Node::Kind::op)) continue;
      const bool used = std::any_of(n.out.begin(), n.out.end(),
                                    [&](const Text& t) { return users_.count(t.text) > 0; });
      const std::vector<Text> blocks = blocks_of(n);
      if (used || std::any_of(blocks.begin(), blocks.end(),
                              [&](const Text& t) { return changes_state(t.text); })) {
        continue;
      }
      out_.push_back(warning("E0508", n.out[0].place,
                             fmt::format("nothing uses '{}', the result of {} '{}'", n.out[0].text,
                                         region                          ? "the branch or loop"
                                         : block                         ? "block"
                                         : pure                          ? "the pure host function"
                                         : n.kind == Node::Kind::library ? "the library function"
                                         : kernel                        ? "the kernel"
                                                                         : "op",
                                         n.target),
                             "use it, name it in the outputs, or remove the node"));
    }
  }

 private:
  static constexpr size_t kResult = SIZE_MAX;  // a user that is no node

  static std::vector<const Operand*> operands(const Node& n) {
    std::vector<const Operand*> named;
    for (const std::vector<Operand>* side : {&n.in, &n.at}) {
      for (const Operand& o : *side) {
        if (!o.name.empty()) named.push_back(&o);
      }
    }
    return named;
  }

  /// The node and all that it needs.
  std::set<size_t> needed_by(size_t node) const {
    std::set<size_t> needed{node};
    std::vector<size_t> open{node};
    while (!open.empty()) {
      const Node& n = list_.nodes[open.back()];
      open.pop_back();
      for (const Operand* o : operands(n)) {
        const auto it = producer_.find(o->name);
        if (it != producer_.end() && needed.insert(it->second).second) open.push_back(it->second);
      }
    }
    return needed;
  }

  /// An assigned value that others use too, that no node computes, or that is the old one counted
  /// on is no trap: whoever reads the param could as well read that, or means the one before.
  bool deliberate(const Node& n, const std::set<size_t>& needed) const {
    if (n.kind != Node::Kind::assign) return false;
    const std::string& value = n.in[0].name;
    if (producer_.count(value) == 0 || users_.at(value).size() > 1) return true;
    return std::none_of(needed.begin(), needed.end(), [&](size_t i) {
      const std::vector<const Operand*> from = operands(list_.nodes[i]);
      return std::any_of(from.begin(), from.end(),
                         [&](const Operand* o) { return inputs_.count(o->name) > 0; });
    });
  }

  /// `now`: the name of the new value, if it has one.
  void old_value(size_t change, const std::string& target, const Text* now) {
    const Node& n = list_.nodes[change];
    if (now && users_.count(now->text) > 0) return;
    const auto readers = users_.find(target);
    if (readers == users_.end()) return;
    const std::set<size_t> needed = needed_by(change);
    if (deliberate(n, needed)) return;
    for (const size_t reader : readers->second) {
      if (needed.count(reader) == 0) report(n, target, place_of(reader, target), now);
    }
  }

  Place place_of(size_t reader, const std::string& name) const {
    if (reader == kResult) {
      for (const Text& t : results_) {
        if (t.text == name) return t.place;
      }
    }
    for (const Operand* o : operands(list_.nodes.at(reader))) {
      if (o->name == name) return o->place;
    }
    return {};
  }

  void report(const Node& change, const std::string& target, const Place& reader, const Text* now) {
    const std::string_view what = change.kind == Node::Kind::update   ? "update"
                                  : change.kind == Node::Kind::assign ? "assign"
                                                                      : "kernel";
    Diagnostic d = warning(
        "E0507", reader,
        fmt::format("this is '{0}' from before the {1}: a param's own name is its old value, "
                    "wherever it stands",
                    target, what),
        now ? fmt::format("the new value is '{}'", now->text)
            : fmt::format("for the new value give the {} an 'out', as in out = \"{}_now\", and "
                          "use that",
                          what, target));
    Diagnostic note;
    note.severity = Severity::note;
    note.place = change.place;
    note.message = "it changes here";
    d.notes.push_back(std::move(note));
    out_.push_back(std::move(d));
  }

  const NodeList& list_;
  const std::vector<Text>& results_;
  NameSet inputs_;
  std::vector<Diagnostic>& out_;
  std::map<std::string, size_t, std::less<>> producer_;
  std::map<std::string, std::set<size_t>, std::less<>> users_;
};

class Warnings {
 public:
  explicit Warnings(const Model& model) : model_(model) {}

  std::vector<Diagnostic> run() {
    graph();
    for (const auto& [name, b] : model_.blocks) block(b);
    for (const auto& [name, k] : model_.kernels) {
      if (!used_kernels_.contains(name)) {
        unused(k.name, fmt::format("nothing uses the kernel '{}'", name));
      }
    }
    return std::move(out_);
  }

 private:
  void unused(const Text& name, std::string message) {
    out_.push_back(warning("E0508", name.place, std::move(message), "use it, or remove it"));
  }

  void graph() {
    NameSet inputs;
    std::vector<Text> results;
    for (const Declaration& d : model_.inputs) inputs.insert(d.name.text);
    for (const ScalarDeclaration& d : model_.scalars) inputs.insert(d.name.text);
    for (const auto& [name, value] : model_.outputs) results.push_back(value);
    ListWarnings list(model_.graph, results, std::move(inputs), out_);
    const auto check = [&](const Text& name, std::string_view what) {
      if (!list.uses(name.text))
        unused(name, fmt::format("nothing uses the {} '{}'", what, name.text));
    };
    for (const Declaration& d : model_.inputs) check(d.name, "input");
    for (const ScalarDeclaration& d : model_.scalars) check(d.name, "scalar");
    for (const Declaration& d : model_.params) check(d.name, "param");
    list.old_values();
    list.unused_results([this](const std::string& name) { return changes_state(name); });
    const auto take_blocks = [this](const NodeList& nodes) {
      for (const Node& n : nodes.nodes) {
        if (n.kind == Node::Kind::kernel) used_kernels_.insert(n.target);
        for (const Text& t : blocks_of(n)) {
          used_blocks_.insert(t.text);
          if (is_region(n.kind)) bodies_.insert(t.text);
        }
      }
    };
    take_blocks(model_.graph);
    for (const auto& [name, b] : model_.blocks) take_blocks(b.list);
  }

  void block(const Block& b) {
    if (used_blocks_.count(b.name.text) == 0) {
      unused(b.name, fmt::format("nothing uses the block '{}'", b.name.text));
    }
    NameSet inputs;
    for (const Text& t : b.in) inputs.insert(t.text);
    ListWarnings list(b.list, b.out, std::move(inputs), out_);
    for (const Text& t : b.in) {
      // A body takes what comes before what it needs as well.
      if (!list.uses(t.text) && bodies_.count(b.name.text) == 0) {
        unused(t, fmt::format("block '{}' does not use its input '{}'", b.name.text, t.text));
      }
    }
    for (const Declaration& d : b.params) {
      if (!list.uses(d.name.text)) {
        unused(d.name,
               fmt::format("block '{}' does not use its param '{}'", b.name.text, d.name.text));
      }
    }
    list.old_values();
    list.unused_results([this](const std::string& name) { return changes_state(name); });
  }

  /// Blocks that use each other are refused before.
  bool changes_state(const std::string& name) {
    if (const auto it = changes_.find(name); it != changes_.end()) return it->second;
    const NodeList& list = model_.blocks.at(name).list;
    bool changes = !list.assigned.empty();
    for (const Node& n : list.nodes) {
      changes = changes || (n.kind == Node::Kind::host && !n.pure) || is_message(n.kind);
      for (const Text& t : blocks_of(n)) changes = changes || changes_state(t.text);
    }
    return changes_[name] = changes;
  }

  const Model& model_;
  std::vector<Diagnostic> out_;
  std::set<std::string> used_blocks_, used_kernels_;
  std::set<std::string> bodies_;  // those of branches and loops
  std::map<std::string, bool> changes_;
};

}  // namespace

std::vector<Diagnostic> find_warnings(const Model& model) { return Warnings(model).run(); }

}  // namespace braid::toml_reader
