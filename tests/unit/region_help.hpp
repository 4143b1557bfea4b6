// Programs with regions made by hand and at random, and what runs in them: every access of every
// run of a side, with its place in the tree of scripts, nodes, iterations and sides.
#pragma once

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plan_help.hpp"

namespace braid::test {

/// Builds bodies and regions from the outside in. Kernels are roles alone, as in PlanMaker.
struct RegionMaker {
  static constexpr uint32_t kNone = UINT32_MAX;
  using Use = PlanMaker::Use;
  Program p;

  /// A buffer and its one view, which have the same number. `region`: in whose slab it lies.
  uint32_t buffer(Segment segment, int64_t bytes, uint32_t region = kNone) {
    const auto b = static_cast<uint32_t>(p.buffers.size());
    const TensorType type{DType::u8, Shape::of(std::vector<int64_t>{bytes})};
    p.buffers.push_back({"b" + std::to_string(b), segment, type, bytes, 0, region});
    p.views.push_back({b, 0, type, {1}, b});
    return b;
  }
  uint32_t temp(int64_t bytes, uint32_t region = kNone) {
    return buffer(Segment::temp, bytes, region);
  }

  uint32_t body(uint32_t region = kNone, uint32_t side = 0) {
    Body& b = p.bodies.emplace_back();
    b.region = region;
    b.branch = side;
    return static_cast<uint32_t>(p.bodies.size() - 1);
  }
  Node& node(uint32_t body, const std::vector<Use>& uses, uint32_t lane = 0) {
    Kernel k;
    Node n;
    for (const Use& u : uses) {
      k.args.push_back({"", u.role, p.buffers[u.buffer].type});
      n.args.push_back(u.buffer);
    }
    n.kernel = static_cast<uint32_t>(p.kernels.size());
    p.kernels.push_back(std::move(k));
    return add(body, std::move(n), lane);
  }
  /// A kernel of one side of a predicate region, which reads the flag.
  Node& guarded(uint32_t body, uint32_t region, uint32_t side, std::vector<Use> uses,
                uint32_t lane = 0) {
    uses.push_back({p.views[p.regions[region].flag].buffer, Role::in});
    Node& n = node(body, uses, lane);
    n.region = region;
    n.branch = side;
    p.kernels.back().guard = static_cast<int32_t>(side);
    return n;
  }

  /// A region without sides yet, and with a slab unless it is a predicate.
  uint32_t region(Region::Kind kind, bool loop, uint32_t flag, uint32_t around = kNone) {
    Region r;
    r.kind = kind;
    r.loop = loop;
    r.flag = flag;
    r.region = around;
    r.sides = 0;
    if (kind != Region::Kind::predicate) r.slab = temp(0, around);
    p.regions.push_back(std::move(r));
    return static_cast<uint32_t>(p.regions.size() - 1);
  }
  uint32_t side_body(uint32_t region) {
    const uint32_t b = body(region, p.regions[region].sides++);
    p.regions[region].bodies.push_back(b);
    return b;
  }
  void side_script(uint32_t region, std::vector<Step> script) {
    p.regions[region].scripts.push_back(std::move(script));
    ++p.regions[region].sides;
  }

  /// Everything around the region that its sides and its flag touch, and the slab.
  void close(uint32_t r) {
    Region& region = p.regions[r];
    std::vector<std::pair<uint32_t, Role>> uses{{region.flag, Role::in}};
    const auto use = [&](uint32_t view, Role role) {
      if (p.buffers[p.views[view].buffer].region == r) return;
      for (auto& [v, known] : uses) {
        if (v != view) continue;
        if (role != Role::in) known = Role::inout;
        return;
      }
      uses.emplace_back(view, role == Role::in ? Role::in : Role::inout);
    };
    const auto each = [&](const std::vector<ArgSlot>& slots, const std::vector<uint32_t>& args) {
      for (size_t s = 0; s < args.size(); ++s) use(args[s], slots[s].role);
    };
    const auto of_body = [&](uint32_t b) {
      for (const Node& n : p.bodies[b].nodes) each(slots_of(p, n), n.args);
    };
    for (uint32_t b : region.bodies) of_body(b);
    for (const std::vector<Step>& script : region.scripts) {
      for (const Step& s : script) {
        if (s.kind == Step::Kind::launch) of_body(s.index);
        if (s.kind == Step::Kind::region) each(p.regions[s.index].slots, p.regions[s.index].args);
        if (s.kind == Step::Kind::call) {
          for (uint32_t v : p.calls[s.index].args) use(v, Role::in);
          for (uint32_t v : p.calls[s.index].results) use(v, Role::out);
        }
      }
    }
    uses.emplace_back(region.slab, Role::out);
    for (const auto& [view, role] : uses) {
      region.args.push_back(view);
      region.slots.push_back({"", role, p.views[view].type});
    }
  }
  /// The region's node, once the region is closed. It stands where it is called for.
  Node& conditional(uint32_t body, uint32_t region, uint32_t lane = 0) {
    Node n;
    n.kernel = kNoKernel;
    n.region = region;
    n.args = p.regions[region].args;
    return add(body, std::move(n), lane);
  }

  uint32_t call(std::vector<uint32_t> args, std::vector<uint32_t> results) {
    Call c;
    c.args = std::move(args);
    c.results = std::move(results);
    p.calls.push_back(std::move(c));
    return static_cast<uint32_t>(p.calls.size() - 1);
  }
  static void steps(std::vector<Step>& script, uint32_t call) {
    for (Step::Kind k : {Step::Kind::read, Step::Kind::wait, Step::Kind::call, Step::Kind::write}) {
      script.push_back({k, call});
    }
  }

 private:
  Node& add(uint32_t body, Node n, uint32_t lane) {
    Body& b = p.bodies[body];
    n.lane = lane;
    for (const Node& other : b.nodes) n.position += other.lane == lane;
    b.lanes = std::max(b.lanes, lane + 1);
    b.nodes.push_back(std::move(n));
    return b.nodes.back();
  }
};

struct RandomRegionsOptions {
  uint32_t nodes = 7;  // at most, of a body
  uint32_t lanes = 3;  // at most
  uint32_t depth = 3;  // of regions
  bool host = true;    // regions and calls of the host as well
};

/// Regions in each other at random: nodes read and write temporaries of their side and of those
/// around it, conditional nodes have setters, loops set their flags.
class RandomRegions {
 public:
  RandomRegions(std::mt19937& random, const RandomRegionsOptions& options)
      : random_(random), o_(options) {}

  Program make() {
    m_.buffer(Segment::input, 64);
    for (int i = 0; i < 2; ++i) visible_.push_back(m_.buffer(Segment::param, 128));
    m_.p.script = script(RegionMaker::kNone, o_.depth);
    return std::move(m_.p);
  }

 private:
  using Use = RegionMaker::Use;
  uint32_t below(size_t n) { return static_cast<uint32_t>(random_() % n); }
  int64_t size() {
    const int64_t sizes[] = {1, 255, 256, 257, 1000, 4096, 5000, 1 << below(15)};
    return sizes[below(std::size(sizes))];
  }
  uint32_t any_visible() {
    const size_t recent = std::min<size_t>(visible_.size(), below(3) ? 5 : visible_.size());
    return visible_[visible_.size() - 1 - below(recent)];
  }

  std::vector<Use> uses(uint32_t region) {
    std::vector<Use> all;
    const auto use = [&](uint32_t buffer, Role role) {
      const auto same = [&](const Use& u) { return u.buffer == buffer; };
      if (std::none_of(all.begin(), all.end(), same)) all.push_back({buffer, role});
    };
    for (uint32_t i = below(4); i > 0; --i) use(any_visible(), Role::in);
    if (below(5) == 0) use(0, Role::in);
    if (below(5) == 0) use(any_visible(), below(2) ? Role::out : Role::inout);
    for (uint32_t i = below(6) == 0 ? 0 : 1 + below(2); i > 0; --i) {
      const uint32_t made = m_.temp(size(), region);
      use(made, Role::out);
      made_.push_back(made);
    }
    return all;
  }
  void now_visible() {
    visible_.insert(visible_.end(), made_.begin(), made_.end());
    made_.clear();
  }
  void kernel(uint32_t body, uint32_t region) {
    m_.node(body, uses(region), below(o_.lanes));
    Kernel& k = m_.p.kernels.back();
    k.waits = below(2) == 0;
    in_place(k);
    now_visible();
  }
  void in_place(Kernel& k) {
    for (uint32_t out = 0; out < k.args.size(); ++out) {
      for (uint32_t in = 0; in < k.args.size(); ++in) {
        const bool roles = k.args[out].role == Role::out && k.args[in].role == Role::in;
        if (roles && below(3)) k.in_place.push_back({out, in});
      }
    }
  }

  void fill(uint32_t body, uint32_t region, uint32_t depth) {
    for (uint32_t i = below(o_.nodes + 1); i > 0; --i) {
      const uint32_t what = below(8);
      if (what == 0) {
        predicate(body, region);
      } else if (what < 4 && depth > 0) {
        conditional(body, region, depth);
      } else {
        kernel(body, region);
      }
    }
  }

  void predicate(uint32_t body, uint32_t region) {
    const uint32_t flag = m_.temp(1, region);
    m_.node(body, {{any_visible(), Role::in}, {flag, Role::out}}, below(o_.lanes));
    const uint32_t r = m_.region(Region::Kind::predicate, false, flag, region);
    const uint32_t sides = m_.p.regions[r].sides = 2;
    const size_t seen = visible_.size();
    for (uint32_t side = 0; side < sides; ++side) {
      for (uint32_t i = below(3); i > 0; --i) {
        m_.guarded(body, r, side, uses(region), below(o_.lanes));
        in_place(m_.p.kernels.back());
        now_visible();
      }
      visible_.resize(seen);
    }
  }

  void conditional(uint32_t body, uint32_t region, uint32_t depth) {
    const bool loop = below(2) == 0;
    const uint32_t flag = m_.buffer(Segment::handle, 1);
    m_.node(body, {{any_visible(), Role::in}, {flag, Role::out}}, below(o_.lanes));
    const uint32_t r = m_.region(Region::Kind::node, loop, flag, region);
    const size_t seen = visible_.size();
    for (uint32_t side = loop ? 1 : 1 + below(3); side > 0; --side) {
      const uint32_t b = m_.side_body(r);
      fill(b, r, depth - 1);
      if (loop) m_.node(b, {{any_visible(), Role::in}, {flag, Role::out}}, below(o_.lanes));
      visible_.resize(seen);
    }
    m_.close(r);
    m_.conditional(body, r, below(o_.lanes));
  }

  std::vector<Step> script(uint32_t region, uint32_t depth) {
    std::vector<Step> steps;
    for (uint32_t i = 1 + below(o_.host ? 3 : 1); i > 0; --i) {
      const uint32_t what = o_.host ? below(4) : 3;
      if (what == 0) {
        const uint32_t result = m_.temp(size(), region);
        m_.steps(steps, m_.call({any_visible()}, {result}));
        visible_.push_back(result);
      } else if (what == 1 && depth > 0) {
        host_region(steps, region, depth);
      } else {
        const uint32_t b = m_.body(region, 0);
        steps.push_back({Step::Kind::launch, b});
        fill(b, region, depth);
      }
    }
    return steps;
  }

  void host_region(std::vector<Step>& steps, uint32_t region, uint32_t depth) {
    const bool loop = below(2) == 0;
    const uint32_t r = m_.region(Region::Kind::host, loop, any_visible(), region);
    const size_t seen = visible_.size();
    for (uint32_t side = loop ? 1 : 1 + below(2); side > 0; --side) {
      std::vector<Step> of_side = script(r, depth - 1);
      m_.side_script(r, std::move(of_side));
      visible_.resize(seen);
    }
    m_.close(r);
    steps.push_back({Step::Kind::region, r});
  }

  std::mt19937& random_;
  RandomRegionsOptions o_;
  RegionMaker m_;
  std::vector<uint32_t> visible_;  // buffers that nodes may use
  std::vector<uint32_t> made_;     // by the node in the making
};

/// One place on the way from the script to what runs.
struct Stop {
  enum Kind : uint8_t { step, node, iteration, side } kind;
  uint32_t where;  // of a node: its body; of an iteration or side: the region
  uint32_t value;
  bool operator==(const Stop&) const = default;
};
using Path = std::vector<Stop>;

/// A kernel or a copy that runs.
struct Event {
  Path path;
  const Node* node = nullptr;  // null for a copy
  std::vector<uint32_t> views;
};

/// All that may run, in launch order, each loop `iterations` times. `choose(region)`: the side that
/// is taken; kNone: all of them, one after the other.
template <class Choose>
class Expansion {
 public:
  Expansion(const Program& p, uint32_t iterations, const Choose& choose)
      : p_(p), iterations_(iterations), choose_(choose) {
    script(p.script);
  }
  std::vector<Event> take() { return std::move(events_); }

 private:
  template <class Inside>
  void at(Stop stop, const Inside& inside) {
    path_.push_back(stop);
    inside();
    path_.pop_back();
  }
  void event(const Node* node, const std::vector<uint32_t>& views) {
    events_.push_back({path_, node, views});
  }
  void script(const std::vector<Step>& steps) {
    for (uint32_t s = 0; s < steps.size(); ++s) {
      const Step& step = steps[s];
      at({Stop::step, UINT32_MAX, s}, [&] {
        if (step.kind == Step::Kind::launch) body(step.index);
        if (step.kind == Step::Kind::read) event(nullptr, p_.calls[step.index].args);
        if (step.kind == Step::Kind::write) event(nullptr, p_.calls[step.index].results);
        if (step.kind == Step::Kind::region) region(step.index);
      });
    }
  }
  void body(uint32_t b) {
    const std::vector<Node>& nodes = p_.bodies[b].nodes;
    for (uint32_t n = 0; n < nodes.size(); ++n) {
      at({Stop::node, b, n}, [&] {
        if (nodes[n].kernel == kNoKernel) {
          region(nodes[n].region);
        } else {
          event(&nodes[n], nodes[n].args);
        }
      });
    }
  }
  void region(uint32_t r) {
    const Region& region = p_.regions[r];
    const uint32_t only = region.loop ? UINT32_MAX : choose_(region);
    for (uint32_t i = 0; i < (region.loop ? iterations_ : 1); ++i) {
      at({Stop::iteration, r, i}, [&] {
        for (uint32_t side = 0; side < region.sides; ++side) {
          if (only != UINT32_MAX && side != only) continue;
          at({Stop::side, r, side}, [&] {
            if (region.kind == Region::Kind::node) {
              body(region.bodies[side]);
            } else {
              event(nullptr, {region.flag});
              script(region.scripts[side]);
            }
          });
        }
      });
    }
    // The host reads the flag once more to leave a loop.
    if (region.loop && region.kind == Region::Kind::host) {
      at({Stop::iteration, r, iterations_}, [&] { event(nullptr, {region.flag}); });
    }
  }

  const Program& p_;
  const uint32_t iterations_;
  const Choose& choose_;
  Path path_;
  std::vector<Event> events_;
};

/// What orders two events of a program: steps and iterations as they come, nodes of a body by its
/// relation; those of different sides never run both.
class Order {
 public:
  enum Kind : uint8_t { before, after, never, any };
  /// `nodes` by body: closed.
  explicit Order(std::vector<Relation> nodes) : nodes_(std::move(nodes)) {}

  Kind operator()(const Event& x, const Event& y) const {
    size_t i = 0;
    while (i < x.path.size() && i < y.path.size() && x.path[i] == y.path[i]) ++i;
    if (i == x.path.size() || i == y.path.size()) {
      return x.path.size() < y.path.size() ? before : x.path.size() > y.path.size() ? after : any;
    }
    const uint32_t a = x.path[i].value, b = y.path[i].value;
    if (x.path[i].kind == Stop::side && y.path[i].kind == Stop::side) return never;
    if (x.path[i].kind != Stop::node) return a < b ? before : after;
    const Relation& r = nodes_[x.path[i].where];
    return r(a, b) ? before : r(b, a) ? after : any;
  }

 private:
  std::vector<Relation> nodes_;
};

}  // namespace braid::test
