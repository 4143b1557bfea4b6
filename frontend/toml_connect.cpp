// Nodes together: every name is defined once and known where it is used, and data order exists.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <queue>

#include "frontend/toml_internal.hpp"

namespace braid::toml_reader {
namespace {

constexpr size_t kNone = SIZE_MAX;

/// Who takes what: edges between the nodes of one list.
struct Edges {
  std::vector<std::vector<size_t>> producers;  // of each node's operands, known ones only
  std::vector<std::vector<size_t>> users;
};

std::string label(const Node& n) {
  if (n.kind == Node::Kind::print) return "a print";
  if (n.kind == Node::Kind::item) return "an item";
  if (n.kind == Node::Kind::check) return "a check";
  return fmt::format("node '{}'", n.out.empty() ? n.target : n.out[0].text);
}

void define_scopes(const NodeList& list, Report& report) {
  struct Scope {
    Place place;
    std::string copy;  // "copy 0 of the repeated 'h'"
  };
  std::map<std::string, Scope> scopes;
  for (const Node& n : list.nodes) {
    if (!(n.kind == Node::Kind::block || is_region(n.kind)) || n.scope.empty()) continue;
    const auto add = [&](const std::string& scope, const std::string& copy) {
      const auto [it, added] = scopes.emplace(scope, Scope{n.place, copy});
      if (added) return true;
      Diagnostic note;
      note.severity = Severity::note;
      note.message = it->second.copy.empty() ? "first used here"
                                             : fmt::format("it is that of {}", it->second.copy);
      note.place = it->second.place;
      report
          .error("E0201", n.place,
                 fmt::format("the scope '{}'{} is used twice; give this node another 'name'", scope,
                             copy.empty() ? "" : fmt::format(", that of {},", copy)))
          .notes.push_back(std::move(note));
      return false;
    };
    // The shared params live in the scope without a number.
    if ((n.repeat == 0 || !n.share.empty()) && !add(n.scope, {})) continue;
    for (int64_t i = 0; i < n.repeat; ++i) {
      const std::string copy = fmt::format("copy {} of the repeated '{}'", i, n.scope);
      if (!add(n.scope + std::to_string(i), copy)) break;
    }
  }
}

Edges resolve(NodeList& list, const Names& names, Report& report) {
  std::map<std::string_view, size_t> producer;
  for (size_t i = 0; i < list.nodes.size(); ++i) {
    for (const Text& t : list.nodes[i].out) {
      // Not a second definition, which was reported.
      const Place& first = names.find(t.text)->second;
      if (first.line == t.place.line && first.column == t.place.column) producer.emplace(t.text, i);
    }
  }
  std::vector<std::string> known;
  for (const auto& [name, place] : names) known.push_back(name);

  Edges edges{std::vector<std::vector<size_t>>(list.nodes.size()),
              std::vector<std::vector<size_t>>(list.nodes.size())};
  for (size_t i = 0; i < list.nodes.size(); ++i) {
    Node& n = list.nodes[i];
    const auto operand = [&](const Operand& o) {
      if (o.name.empty()) return;
      if (names.find(o.name) == names.end()) {
        n.bad = true;
        if (report.names_lost) return;
        report.unknown_name({o.name, o.place}, fmt::format("used by {}", label(n)), known);
        return;
      }
      const auto it = producer.find(o.name);
      if (it == producer.end()) return;
      edges.producers[i].push_back(it->second);
      edges.users[it->second].push_back(i);
    };
    for (const Operand& o : n.in) operand(o);
    for (const Operand& o : n.at) operand(o);
  }
  return edges;
}

/// The first cycle that the nodes still waiting contain, each node needing the next.
std::vector<size_t> find_cycle(const Edges& edges, const std::vector<size_t>& waiting_for,
                               const std::vector<bool>& placed) {
  const auto open = [&](size_t i) { return !placed[i] && waiting_for[i] > 0; };
  size_t at = 0;
  while (!open(at)) ++at;
  std::vector<size_t> path;
  std::vector<size_t> position(placed.size(), kNone);
  while (position[at] == kNone) {
    position[at] = path.size();
    path.push_back(at);
    const std::vector<size_t>& p = edges.producers[at];
    at = *std::find_if(p.begin(), p.end(), [&](size_t i) { return !placed[i]; });
  }
  path.erase(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(position[at]));
  std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
  return path;
}

void report_cycle(const NodeList& list, const std::vector<size_t>& cycle, Report& report) {
  const auto name = [&](size_t i) {
    const Node& n = list.nodes[cycle[i % cycle.size()]];
    return n.out.empty() ? n.target : n.out[0].text;
  };
  std::vector<std::string> steps;
  for (size_t i = 0; i < cycle.size(); ++i) {
    steps.push_back(cycle.size() == 1 ? fmt::format("'{}' needs itself", name(i))
                                      : fmt::format("'{}' needs '{}'", name(i), name(i + 1)));
  }
  report.error("E0501", list.nodes[cycle[0]].place,
               fmt::format("nodes depend on each other in a cycle: {}", fmt::join(steps, ", ")),
               "a value from the launch before is a param, which an 'assign' changes");
}

/// Data order; nodes that are free to go keep the order of the file.
void sort(NodeList& list, const Edges& edges, Report& report) {
  const size_t n = list.nodes.size();
  std::vector<size_t> waiting_for(n);
  std::vector<bool> placed(n, false);
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < n; ++i) {
    waiting_for[i] = edges.producers[i].size();
    if (waiting_for[i] == 0) ready.push(i);
  }
  const auto place = [&](size_t i) {
    placed[i] = true;
    list.order.push_back(i);
    for (size_t user : edges.users[i]) {
      if (--waiting_for[user] == 0 && !placed[user]) ready.push(user);
    }
  };
  while (list.order.size() < n) {
    if (ready.empty()) {
      const std::vector<size_t> cycle = find_cycle(edges, waiting_for, placed);
      report_cycle(list, cycle, report);
      for (size_t i : cycle) {
        list.nodes[i].bad = true;
        if (!placed[i]) place(i);
      }
      continue;
    }
    const size_t next = ready.top();
    ready.pop();
    if (!placed[next]) place(next);
  }
}

}  // namespace

void connect(NodeList& list, Names& names, Report& report) {
  for (const Node& n : list.nodes) {
    for (const Text& t : n.out) define(names, t, report);
  }
  define_scopes(list, report);
  sort(list, resolve(list, names, report), report);
}

}  // namespace braid::toml_reader
