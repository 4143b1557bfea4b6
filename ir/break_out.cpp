#include "ir/break_out.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ir/diagnostic.hpp"

namespace braid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

/// Which part each node of a body comes to. 0: does not depend on `node`; 1: is it; 2: the rest,
/// and what sets the values of the conditional nodes there, with all that depends on it. The value
/// is only known in the graph in which it is set.
class Parts {
 public:
  Parts(const Program& p, const Body& body, uint32_t node)
      : part(body.nodes.size(), 0), p_(p), body_(body) {
    part[node] = 1;
    follow();
    std::vector<bool> before(part.size(), false);
    before[node] = true;
    for (auto e = body.edges.rbegin(); e != body.edges.rend(); ++e) {
      if (before[e->to]) before[e->from] = true;
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (uint32_t i = 0; i < part.size(); ++i) {
        if (part[i] != 2 || body.nodes[i].kernel != kNoKernel) continue;
        for (uint32_t setter = 0; setter < i; ++setter) {
          if (part[setter] == 2 || !sets(setter, body.nodes[i].region)) continue;
          if (before[setter]) {
            stuck = body.nodes[i].region;
            return;
          }
          part[setter] = 2;
          changed = true;
        }
      }
      follow();
    }
  }

  std::vector<int> part;
  uint32_t stuck = kNone;  // a region that cannot be cut: what the node needs sets its value

 private:
  void follow() {
    for (const Edge& e : body_.edges) {  // sorted by target
      if (part[e.from] != 0 && part[e.to] == 0) part[e.to] = 2;
    }
  }
  bool sets(uint32_t node, uint32_t region) const {
    const uint32_t handle = p_.views[p_.regions[region].flag].buffer;
    const Node& n = body_.nodes[node];
    return n.kernel != kNoKernel && std::any_of(n.args.begin(), n.args.end(), [&](uint32_t v) {
             return p_.views[v].buffer == handle;
           });
  }

  const Program& p_;
  const Body& body_;
};

/// The nodes of one part, with lanes without gaps, and the edges between them.
Body take(const Body& from, const std::vector<int>& parts, int part) {
  Body body;
  body.run = from.run;
  body.region = from.region;
  body.branch = from.branch;
  std::vector<uint32_t> at(from.nodes.size(), kNone);
  std::map<uint32_t, uint32_t> lanes, lengths;
  double first = 0, last = 0;
  for (uint32_t i = 0; i < from.nodes.size(); ++i) {
    if (parts[i] != part) continue;
    at[i] = static_cast<uint32_t>(body.nodes.size());
    Node node = from.nodes[i];
    node.lane = lanes.try_emplace(node.lane, static_cast<uint32_t>(lanes.size())).first->second;
    node.position = lengths[node.lane]++;
    first = body.nodes.empty() ? node.start_us : std::min(first, node.start_us);
    last = std::max(last, node.start_us + node.estimate_us);
    body.nodes.push_back(std::move(node));
  }
  for (Node& node : body.nodes) {
    node.start_us -= first;
    body.chain_us += node.estimate_us;
  }
  body.lanes = std::max<uint32_t>(1, static_cast<uint32_t>(lanes.size()));
  body.predicted_us = std::max(0.0, last - first);
  for (const Edge& e : from.edges) {
    if (at[e.from] == kNone || at[e.to] == kNone) continue;
    Edge kept = e;
    kept.from = at[e.from];
    kept.to = at[e.to];
    body.edges.push_back(kept);
  }
  return body;
}

/// The script that launches a body, or null.
std::vector<Step>* script_of(Program& p, uint32_t body) {
  const Body& b = p.bodies[body];
  return b.region == kNone ? &p.script : &p.regions[b.region].scripts[b.branch];
}

/// Bodies of index `from` and above become `by` higher.
void shift_bodies(Program& p, uint32_t from, uint32_t by) {
  const auto shift = [&](std::vector<Step>& steps) {
    for (Step& s : steps) {
      if (s.kind == Step::Kind::launch && s.index >= from) s.index += by;
    }
  };
  shift(p.script);
  for (Region& r : p.regions) {
    for (std::vector<Step>& script : r.scripts) shift(script);
    for (uint32_t& b : r.bodies) b += b >= from ? by : 0;
  }
}

/// Numbers the runs of a script anew, by whether its steps are graphs or work of the host.
class Runs {
 public:
  Runs(Program& p, const std::vector<Step>& script, bool outermost) : p_(p), outermost_(outermost) {
    for (const Step& s : script) {
      const bool body = s.kind == Step::Kind::launch;
      if (!body && s.kind != Step::Kind::call && s.kind != Step::Kind::region) continue;
      if (body && p_.bodies[s.index].nodes.empty()) continue;
      const bool host = !body || p_.bodies[s.index].stream;
      if (host_.empty() || host_.back() != host) host_.push_back(host);
      const auto now = static_cast<uint32_t>(host_.size() - 1);
      if (s.kind == Step::Kind::region) continue;
      const uint32_t old = body ? p_.bodies[s.index].run : p_.calls[s.index].level;
      now_.push_back({s, old, now});
    }
  }

  uint32_t runs() const { return static_cast<uint32_t>(host_.size()); }
  uint32_t graphs() const {
    return static_cast<uint32_t>(std::count(host_.begin(), host_.end(), false));
  }

  void apply() {
    for (const Item& item : now_) {
      if (item.step.kind == Step::Kind::call) {
        Call& call = p_.calls[item.step.index];
        window(call, item.now);
        continue;
      }
      Body& body = p_.bodies[item.step.index];
      body.run = item.now;
      for (Node& node : body.nodes) window(node, item.now);
    }
    if (!outermost_) return;
    for (Break& b : p_.breaks) b.level = last_of(b.level);
  }

 private:
  struct Item {
    Step step;
    uint32_t old, now;
  };
  uint32_t first_of(uint32_t old) const {
    for (const Item& i : now_) {
      if (i.old >= old) return i.now;
    }
    return now_.empty() ? 0 : now_.back().now;
  }
  uint32_t last_of(uint32_t old) const {
    uint32_t last = 0;
    for (const Item& i : now_) {
      if (i.old <= old) last = i.now;
    }
    return last;
  }
  /// Of a node or a call.
  template <class Work>
  void window(Work& work, uint32_t now) const {
    work.level = now;
    work.earliest = std::min(first_of(work.earliest), now);
    work.latest = std::max(last_of(work.latest), now);
  }

  Program& p_;
  const bool outermost_;
  std::vector<bool> host_;  // by run
  std::vector<Item> now_;
};

}  // namespace

uint32_t uncut(const Program& p, uint32_t body, uint32_t node) {
  const Body& b = p.bodies[body];
  if (b.region != kNone && p.regions[b.region].kind == Region::Kind::node) return b.region;
  return Parts(p, b, node).stuck;
}

void break_out(Program& p, uint32_t body, uint32_t node, std::string reason, std::string remedy) {
  const Body whole = p.bodies[body];
  ensure(!whole.stream && whole.nodes[node].kernel != kNoKernel &&
             whole.nodes[node].region == kNone && uncut(p, body, node) == kNone,
         "break_out: a node that no break can take out");
  const bool outermost = whole.region == kNone;
  const Runs before(p, *script_of(p, body), outermost);
  const std::vector<int> parts = Parts(p, whole, node).part;
  std::vector<Body> made;
  for (int part = 0; part < 3; ++part) {
    Body b = take(whole, parts, part);
    b.stream = part == 1;
    if (!b.nodes.empty()) made.push_back(std::move(b));
  }
  const auto more = static_cast<uint32_t>(made.size() - 1);
  shift_bodies(p, body + 1, more);
  std::vector<Step>& script = *script_of(p, body);
  const auto at = std::find_if(script.begin(), script.end(), [&](const Step& s) {
    return s.kind == Step::Kind::launch && s.index == body;
  });
  ensure(at != script.end(), "break_out: no script launches the body");
  std::vector<Step> steps;
  for (uint32_t i = 1; i <= more; ++i) steps.push_back({Step::Kind::launch, body + i});
  script.insert(at + 1, steps.begin(), steps.end());
  p.bodies[body] = std::move(made[0]);
  p.bodies.insert(p.bodies.begin() + body + 1, std::make_move_iterator(made.begin() + 1),
                  std::make_move_iterator(made.end()));

  Runs after(p, *script_of(p, body), outermost);
  after.apply();
  if (outermost) {
    p.runs = p.runs + after.runs() - before.runs();
    p.graphs = p.graphs + after.graphs() - before.graphs();
    p.certificate.clear();
    p.second_certificate.clear();
  }
  const Node& alone = whole.nodes[node];
  uint32_t level = whole.run;
  for (uint32_t i = body; i <= body + more; ++i) {
    if (p.bodies[i].stream) level = p.bodies[i].run;
  }
  p.breaks.push_back({alone.ops.empty() ? p.kernels[alone.kernel].symbol : alone.ops.back(),
                      alone.place, level, std::move(reason), std::move(remedy)});
}

}  // namespace braid
