// Programs with regions: good ones pass the checker, and those with one thing made wrong do not.
// What is not wrong whatever the Program is left to a judge that runs it: see judge_regions.hpp.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>

#include "control_programs.hpp"
#include "ir/program.hpp"
#include "judge_regions.hpp"
#include "passes/check.hpp"
#include "passes/plan.hpp"
#include "rounds.hpp"

using namespace braid;
using namespace braid::test;

namespace {

constexpr uint32_t kNone = UINT32_MAX;
using K = Region::Kind;

std::string text_of(const std::vector<std::string>& found) {
  std::string text;
  for (const std::string& f : found) text += f + "\n";
  return text;
}

enum class Effect { none, wrong, maybe };  // does not apply; always wrong; the judge says

class Mutator {
 public:
  Mutator(Program& p, std::mt19937& random) : p_(p), random_(random) {}

  uint32_t below(size_t n) { return static_cast<uint32_t>(random_() % n); }
  template <class T, class Is>
  T* any_that(std::vector<T>& from, const Is& is) {
    std::vector<T*> found;
    for (T& x : from) {
      if (is(x)) found.push_back(&x);
    }
    return found.empty() ? nullptr : found[below(found.size())];
  }
  template <class Is>
  Region* region(const Is& is) {
    return any_that(p_.regions, is);
  }
  uint32_t index(const Region& r) const { return static_cast<uint32_t>(&r - p_.regions.data()); }
  /// Some node that fits, and its body.
  template <class Is>
  std::pair<Body*, uint32_t> node(const Is& is) {
    std::vector<std::pair<Body*, uint32_t>> found;
    for (Body& b : p_.bodies) {
      for (uint32_t n = 0; n < b.nodes.size(); ++n) {
        if (is(b.nodes[n])) found.emplace_back(&b, n);
      }
    }
    return found.empty() ? std::pair<Body*, uint32_t>{nullptr, 0} : found[below(found.size())];
  }
  std::pair<Body*, uint32_t> conditional() {
    return node([](const Node& n) { return n.kernel == kNoKernel; });
  }
  std::pair<Body*, uint32_t> guarded() {
    return node([](const Node& n) { return n.kernel != kNoKernel && n.region != kNone; });
  }
  /// A kernel of its own for the node.
  Kernel& own_kernel(Node& n) {
    p_.kernels.push_back(p_.kernels[n.kernel]);
    n.kernel = static_cast<uint32_t>(p_.kernels.size() - 1);
    return p_.kernels.back();
  }
  bool sets_handle(const Node& n) const {
    return n.kernel != kNoKernel && std::any_of(n.args.begin(), n.args.end(), [&](uint32_t v) {
             return p_.buffers[p_.views[v].buffer].segment == Segment::handle;
           });
  }
  /// Positions and edges as they would be had the nodes stood so from the start.
  void settle() {
    for (Body& body : p_.bodies) {
      std::vector<uint32_t> length(body.lanes, 0);
      for (Node& n : body.nodes) n.position = length[n.lane]++;
    }
    emit_edges(p_, Options{});
  }
  Effect drop_edge(const std::function<bool(const Body&, const Edge&)>& is) {
    std::vector<std::pair<Body*, size_t>> found;
    for (Body& b : p_.bodies) {
      for (size_t e = 0; e < b.edges.size(); ++e) {
        if (is(b, b.edges[e])) found.emplace_back(&b, e);
      }
    }
    if (found.empty()) return Effect::none;
    const auto [b, e] = found[below(found.size())];
    b->edges.erase(b->edges.begin() + static_cast<std::ptrdiff_t>(e));
    return Effect::maybe;
  }

  Program& p_;
  std::mt19937& random_;
};

struct Mutation {
  std::string name;
  size_t least;  // harmful ones that there must be
  std::function<Effect(Program&, Mutator&)> apply;
};

bool has_states(const Region& r) { return !r.states.empty(); }

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all{
      {"an edge of a conditional node dropped", 40,
       [](Program&, Mutator& m) {
         return m.drop_edge([](const Body& b, const Edge& e) {
           return b.nodes[e.from].kernel == kNoKernel || b.nodes[e.to].kernel == kNoKernel;
         });
       }},
      {"an edge of a guarded node dropped", 20,
       [](Program& p, Mutator& m) {
         const auto is = [&](const Node& n) {
           return n.kernel != kNoKernel && p.kernels[n.kernel].guard;
         };
         return m.drop_edge([&](const Body& b, const Edge& e) {
           return is(b.nodes[e.from]) || is(b.nodes[e.to]);
         });
       }},
      {"an edge inside a side dropped", 40,
       [](Program&, Mutator& m) {
         return m.drop_edge([](const Body& b, const Edge&) { return b.region != kNone; });
       }},
      {"a guard that asks for another side", 40,
       [](Program& p, Mutator& m) {
         const auto [b, n] = m.guarded();
         if (!b) return Effect::none;
         Kernel& k = m.own_kernel(b->nodes[n]);
         k.guard = *k.guard == 0 ? 1 : 0;
         return p.regions[b->nodes[n].region].sides == 1 ? Effect::none : Effect::wrong;
       }},
      {"a node and its guard on another side", 20,
       [](Program& p, Mutator& m) {
         const auto [b, n] = m.guarded();
         if (!b || p.regions[b->nodes[n].region].sides == 1) return Effect::none;
         Node& node = b->nodes[n];
         Kernel& k = m.own_kernel(node);
         node.branch = (node.branch + 1) % p.regions[node.region].sides;
         k.guard = static_cast<int32_t>(node.branch);
         return Effect::maybe;
       }},
      {"a guard missing", 40,
       [](Program&, Mutator& m) {
         const auto [b, n] = m.guarded();
         if (!b) return Effect::none;
         Node& node = b->nodes[n];
         Kernel& k = m.own_kernel(node);
         k.guard.reset();
         k.args.pop_back();
         node.args.pop_back();
         node.values.pop_back();
         node.values_before.pop_back();
         return Effect::wrong;
       }},
      {"a guarded node of no region", 40,
       [](Program&, Mutator& m) {
         const auto [b, n] = m.guarded();
         if (!b) return Effect::none;
         b->nodes[n].region = kNone;
         return Effect::wrong;
       }},
      {"a guard that reads another flag", 40,
       [](Program& p, Mutator& m) {
         const auto [b, n] = m.guarded();
         if (!b) return Effect::none;
         Node& node = b->nodes[n];
         std::vector<uint32_t> others;
         for (uint32_t v = 0; v < p.views.size(); ++v) {
           const Segment s = p.buffers[p.views[v].buffer].segment;
           if (p.views[v].type == p.views[node.args.back()].type && v != node.args.back() &&
               p.views[v].value != node.values.back() && s != Segment::handle) {
             others.push_back(v);
           }
         }
         if (others.empty()) return Effect::none;
         node.args.back() = others[m.below(others.size())];
         node.values.back() = p.views[node.args.back()].value;
         return Effect::wrong;
       }},
      {"a slab too small", 40,
       [](Program& p, Mutator& m) {
         const Region* r = m.region(
             [&](const Region& x) { return x.slab != kNone && p.buffers[x.slab].bytes > 0; });
         if (!r) return Effect::none;
         Buffer& slab = p.buffers[r->slab];
         slab.bytes -= 256;
         slab.type = {DType::u8, Shape::of(std::vector<int64_t>{slab.bytes})};
         for (Region& region : p.regions) {
           for (size_t s = 0; s < region.args.size(); ++s) {
             View& v = p.views[region.args[s]];
             if (v.buffer != r->slab) continue;
             v.type = region.slots[s].type = slab.type;
           }
         }
         return Effect::wrong;
       }},
      {"a slab elsewhere than what lies in it", 40,
       [](Program& p, Mutator& m) {
         const Region* r = m.region(
             [&](const Region& x) { return x.slab != kNone && p.buffers[x.slab].bytes > 0; });
         if (!r) return Effect::none;
         p.buffers[r->slab].offset = p.arena_bytes;
         p.arena_bytes += p.buffers[r->slab].bytes;
         return Effect::wrong;
       }},
      {"a slab and what lies in it over others", 20,
       [](Program& p, Mutator& m) {
         const Region* r = m.region(
             [&](const Region& x) { return x.slab != kNone && p.buffers[x.slab].bytes > 0; });
         if (!r) return Effect::none;
         const Buffer before = p.buffers[r->slab];
         // In the slab around it, or anywhere.
         const Buffer* in = r->region == kNone ? nullptr : &p.buffers[p.regions[r->region].slab];
         const int64_t room = (in ? in->bytes : p.arena_bytes) - before.bytes;
         const int64_t to =
             (in ? in->offset : 0) + 256 * int64_t{m.below(static_cast<size_t>(room / 256 + 1))};
         if (to == before.offset) return Effect::none;
         for (Buffer& b : p.buffers) {
           uint32_t of = b.region;
           while (of != kNone && of != m.index(*r)) of = p.regions[of].region;
           if (of != kNone && b.segment == Segment::temp) b.offset += to - before.offset;
         }
         p.buffers[r->slab].offset = to;
         return Effect::maybe;
       }},
      {"a temporary moved in its slab", 20,
       [](Program& p, Mutator& m) {
         Buffer* b = m.any_that(p.buffers, [&](const Buffer& x) {
           const auto is = [&](const Region& r) { return r.slab == &x - p.buffers.data(); };
           return x.segment == Segment::temp && x.region != kNone && x.bytes > 0 &&
                  std::none_of(p.regions.begin(), p.regions.end(), is);
         });
         if (!b || p.regions[b->region].slab == kNone) return Effect::none;
         const Buffer& slab = p.buffers[p.regions[b->region].slab];
         if (b->bytes > slab.bytes) return Effect::none;
         const int64_t places = (slab.bytes - b->bytes) / 256 + 1;
         const int64_t to = slab.offset + 256 * int64_t{m.below(static_cast<size_t>(places))};
         if (to == b->offset) return Effect::none;
         b->offset = to;
         return Effect::maybe;
       }},
      {"a side that should leave another value", 40,
       [](Program&, Mutator& m) {
         Region* r =
             m.region([](const Region& x) { return x.kind != K::predicate && has_states(x); });
         if (!r) return Effect::none;
         Region::State& s = r->states[m.below(r->states.size())];
         uint32_t& exit = s.exit[m.below(r->sides)];
         const uint32_t other = r->states[m.below(r->states.size())].exit[0];
         if (other == exit || other == kNone) return Effect::none;
         exit = other;
         return Effect::wrong;
       }},
      {"a side of a predicate that should leave another value", 10,
       [](Program&, Mutator& m) {
         Region* r =
             m.region([](const Region& x) { return x.kind == K::predicate && has_states(x); });
         if (!r) return Effect::none;
         Region::State& s = r->states[m.below(r->states.size())];
         uint32_t& exit = s.exit[m.below(r->sides)];
         if (exit == s.before || s.before == kNone) return Effect::none;
         exit = s.before;
         return Effect::maybe;
       }},
      {"a side that begins with another value", 40,
       [](Program&, Mutator& m) {
         Region* r = m.region(has_states);
         if (!r) return Effect::none;
         Region::State& s = r->states[m.below(r->states.size())];
         uint32_t& entry = s.entry[m.below(r->sides)];
         const uint32_t other = m.below(2) && r->loop ? s.before : s.after;
         if (other == entry) return Effect::none;
         entry = other;
         return Effect::wrong;
       }},
      {"a region that leaves what it found", 40,
       [](Program&, Mutator& m) {
         Region* r = m.region(has_states);
         if (!r) return Effect::none;
         Region::State& s = r->states[m.below(r->states.size())];
         s.after = s.before;
         return Effect::wrong;
       }},
      {"a body in two regions", 40,
       [](Program& p, Mutator& m) {
         Region* a = m.region([](const Region& x) { return x.kind == K::node; });
         Region* b = m.region([](const Region& x) { return x.kind == K::node; });
         if (!a || a == b) return Effect::none;
         static_cast<void>(p);
         a->bodies[m.below(a->sides)] = b->bodies[m.below(b->sides)];
         return Effect::wrong;
       }},
      {"two sides exchanged", 40,
       [](Program&, Mutator& m) {
         Region* r = m.region([](const Region& x) { return x.bodies.size() > 1; });
         if (!r) return Effect::none;
         std::swap(r->bodies[0], r->bodies[1]);
         return Effect::wrong;
       }},
      {"an argument of a region missing", 40,
       [](Program& p, Mutator& m) {
         Region* r = m.region([](const Region& x) {
           return x.kind != K::predicate &&
                  std::any_of(x.slots.begin(), x.slots.end(),
                              [](const ArgSlot& s) { return s.role != Role::in; });
         });
         if (!r) return Effect::none;
         uint32_t s = m.below(r->slots.size());
         while (r->slots[s].role == Role::in) s = m.below(r->slots.size());
         const auto drop = [s](auto& from) { from.erase(from.begin() + s); };
         drop(r->slots);
         drop(r->args);
         drop(r->values);
         drop(r->values_before);
         for (Body& b : p.bodies) {
           for (Node& n : b.nodes) {
             if (n.kernel != kNoKernel || n.region != m.index(*r)) continue;
             n.args = r->args;
             n.values = r->values;
             n.values_before = r->values_before;
           }
         }
         return Effect::wrong;
       }},
      {"an argument of a region of another role", 40,
       [](Program&, Mutator& m) {
         Region* r = m.region([](const Region& x) { return !x.slots.empty(); });
         if (!r) return Effect::none;
         Role& role = r->slots[m.below(r->slots.size())].role;
         role = role == Role::in ? Role::inout : Role::in;
         return Effect::wrong;
       }},
      {"a conditional node with other arguments than its region", 40,
       [](Program& p, Mutator& m) {
         const auto [b, n] = m.conditional();
         if (!b) return Effect::none;
         Node& node = b->nodes[n];
         const uint32_t s = m.below(node.args.size());
         std::vector<uint32_t> others;
         for (uint32_t v = 0; v < p.views.size(); ++v) {
           if (p.views[v].type == p.views[node.args[s]].type && v != node.args[s]) {
             others.push_back(v);
           }
         }
         if (others.empty()) return Effect::none;
         node.args[s] = others[m.below(others.size())];
         return Effect::wrong;
       }},
      {"a conditional node missing", 40,
       [](Program&, Mutator& m) {
         const auto [b, n] = m.conditional();
         if (!b) return Effect::none;
         b->nodes.erase(b->nodes.begin() + n);
         m.settle();
         return Effect::wrong;
       }},
      {"a conditional node twice", 40,
       [](Program&, Mutator& m) {
         const auto [b, n] = m.conditional();
         if (!b) return Effect::none;
         b->nodes.push_back(b->nodes[n]);
         m.settle();
         return Effect::wrong;
       }},
      {"a conditional node in another body", 20,
       [](Program& p, Mutator& m) {
         const auto [b, n] = m.conditional();
         Body& to = p.bodies[m.below(p.bodies.size())];
         if (!b || b == &to || (to.region == b->region && to.branch == b->branch)) {
           return Effect::none;
         }
         Node node = b->nodes[n];
         b->nodes.erase(b->nodes.begin() + n);
         node.level = node.earliest = node.latest = to.run;
         node.lane = 0;
         to.nodes.push_back(std::move(node));
         m.settle();
         return Effect::wrong;
       }},
      {"a handle set by nobody", 40,
       [](Program&, Mutator& m) {
         const auto [b, n] = m.node([&](const Node& x) { return m.sets_handle(x); });
         if (!b) return Effect::none;
         b->nodes.erase(b->nodes.begin() + n);
         m.settle();
         return Effect::maybe;
       }},
      {"a handle set after its node", 20,
       [](Program& p, Mutator& m) {
         const auto [b, n] = m.conditional();
         if (!b) return Effect::none;
         const uint32_t handle = p.views[p.regions[b->nodes[n].region].flag].buffer;
         for (uint32_t s = 0; s < n; ++s) {
           const std::vector<uint32_t>& args = b->nodes[s].args;
           if (b->nodes[s].kernel == kNoKernel ||
               std::none_of(args.begin(), args.end(),
                            [&](uint32_t v) { return p.views[v].buffer == handle; })) {
             continue;
           }
           std::rotate(b->nodes.begin() + s, b->nodes.begin() + s + 1, b->nodes.begin() + n + 1);
           m.settle();
           return Effect::maybe;
         }
         return Effect::none;
       }},
      {"a handle of another region set", 10,
       [](Program& p, Mutator& m) {
         const auto [b, n] = m.node([&](const Node& x) { return m.sets_handle(x); });
         if (!b) return Effect::none;
         for (uint32_t& arg : b->nodes[n].args) {
           if (p.buffers[p.views[arg].buffer].segment != Segment::handle) continue;
           std::vector<uint32_t> others;
           for (uint32_t v = 0; v < p.views.size(); ++v) {
             if (p.views[v].type == p.views[arg].type && p.views[v].buffer != p.views[arg].buffer &&
                 p.buffers[p.views[v].buffer].segment == Segment::handle) {
               others.push_back(v);
             }
           }
           if (others.empty()) return Effect::none;
           arg = others[m.below(others.size())];
           return Effect::wrong;
         }
         return Effect::none;
       }},
      {"a handle where a kernel takes memory", 10,
       [](Program& p, Mutator& m) {
         std::vector<uint32_t> handles;
         for (uint32_t v = 0; v < p.views.size(); ++v) {
           if (p.buffers[p.views[v].buffer].segment == Segment::handle) handles.push_back(v);
         }
         if (handles.empty()) return Effect::none;
         const uint32_t handle = handles[m.below(handles.size())];
         const auto fits = [&](uint32_t v) {
           return p.views[v].type == p.views[handle].type &&
                  p.buffers[p.views[v].buffer].segment != Segment::handle;
         };
         const auto [b, n] = m.node([&](const Node& x) {
           return x.kernel != kNoKernel && std::any_of(x.args.begin(), x.args.end(), fits);
         });
         if (!b) return Effect::none;
         *std::find_if(b->nodes[n].args.begin(), b->nodes[n].args.end(), fits) = handle;
         return Effect::wrong;
       }},
      {"a side's script without a launch", 20,
       [](Program&, Mutator& m) {
         Region* r = m.region([](const Region& x) {
           return std::any_of(x.scripts.begin(), x.scripts.end(),
                              [](const auto& s) { return !s.empty(); });
         });
         if (!r) return Effect::none;
         uint32_t s = m.below(r->scripts.size());
         while (r->scripts[s].empty()) s = m.below(r->scripts.size());
         r->scripts[s].erase(r->scripts[s].begin() + m.below(r->scripts[s].size()));
         return Effect::wrong;
       }},
      {"a step in another script", 20,
       [](Program& p, Mutator& m) {
         Region* r = m.region([](const Region& x) {
           return std::any_of(x.scripts.begin(), x.scripts.end(),
                              [](const auto& s) { return !s.empty(); });
         });
         if (!r) return Effect::none;
         uint32_t s = m.below(r->scripts.size());
         while (r->scripts[s].empty()) s = m.below(r->scripts.size());
         p.script.push_back(r->scripts[s].back());
         r->scripts[s].pop_back();
         return Effect::wrong;
       }},
      {"a region that the script leaves out", 20,
       [](Program& p, Mutator& m) {
         const Step* s =
             m.any_that(p.script, [](const Step& x) { return x.kind == Step::Kind::region; });
         if (!s) return Effect::none;
         p.script.erase(p.script.begin() + (s - p.script.data()));
         return Effect::wrong;
       }},
      {"a region of another kind", 40,
       [](Program& p, Mutator& m) {
         Region& r = p.regions[m.below(p.regions.size())];
         r.kind = static_cast<K>((static_cast<uint32_t>(r.kind) + 1 + m.below(2)) % 3);
         return Effect::wrong;
       }},
      {"a region with another number of sides", 40,
       [](Program& p, Mutator& m) {
         Region& r = p.regions[m.below(p.regions.size())];
         r.sides = m.below(2) ? r.sides + 1 : r.sides - 1;
         return has_states(r) || r.kind != K::predicate || r.sides == 0 ? Effect::wrong
                                                                        : Effect::none;
       }},
      {"a region inside another", 40,
       [](Program& p, Mutator& m) {
         Region& r = p.regions[m.below(p.regions.size())];
         const uint32_t to = m.below(p.regions.size());
         if (to == r.region) return Effect::none;
         const bool used =
             r.kind != K::predicate || m.node([&](const Node& n) {
                                          return n.kernel != kNoKernel && n.region == m.index(r);
                                        }).first != nullptr;
         r.region = to;
         r.branch = 0;
         return used ? Effect::wrong : Effect::none;
       }},
      {"a flag of another kind of memory", 40,
       [](Program& p, Mutator& m) {
         Region* r = m.region([](const Region& x) { return x.kind != K::predicate; });
         if (!r) return Effect::none;
         std::vector<uint32_t> others;
         for (uint32_t v = 0; v < p.views.size(); ++v) {
           if (p.views[v].type == p.views[r->flag].type &&
               p.views[v].buffer != p.views[r->flag].buffer) {
             others.push_back(v);
           }
         }
         if (others.empty()) return Effect::none;
         const uint32_t to = others[m.below(others.size())];
         for (size_t s = 0; s < r->args.size(); ++s) {
           if (p.views[r->args[s]].buffer == p.views[to].buffer) return Effect::none;
         }
         r->flag = to;
         return Effect::wrong;
       }},
      {"more at once than there are streams", 20,
       [](Program& p, Mutator& m) {
         const auto [b, n] = m.conditional();
         if (!b) return Effect::none;
         uint32_t widest = b->lanes;
         for (uint32_t inner : p.regions[b->nodes[n].region].bodies) {
           widest = std::max(widest, p.bodies[inner].lanes);
         }
         if (widest == 1) return Effect::none;
         const size_t at = p.options.find(" streams=");
         const size_t end = p.options.find(' ', at + 1);
         p.options.replace(at, end - at, fmt::format(" streams={}", widest - 1));
         return Effect::wrong;
       }},
      {"a programmatic edge of a conditional node", 20,
       [](Program& p, Mutator& m) {
         std::vector<Edge*> found;
         for (Body& b : p.bodies) {
           for (Edge& e : b.edges) {
             if (b.nodes[e.from].kernel == kNoKernel || b.nodes[e.to].kernel == kNoKernel) {
               found.push_back(&e);
             }
           }
         }
         if (found.empty()) return Effect::none;
         found[m.below(found.size())]->kind = EdgeKind::programmatic;
         return Effect::wrong;
       }},
      {"a message that nobody knows", 20,
       [](Program& p, Mutator& m) {
         if (p.messages.empty()) return Effect::none;
         MessageSource& s = p.messages[m.below(p.messages.size())];
         if (m.below(2))
           ++s.loops;
         else
           s.type.dtype = s.type.dtype == DType::f64 ? DType::f32 : DType::f64;
         return Effect::wrong;
       }},
  };
  return all;
}

/// Programs with regions that the planner made.
const std::vector<Program>& programs() {
  static const std::vector<Program> all = [] {
    std::vector<Program> made;
    for (uint64_t seed = 0; made.size() < 120; ++seed) {
      Program p = control_program(seed);
      // Of those with many regions the judge sees too few ways.
      if (!p.regions.empty() && p.regions.size() <= 8) made.push_back(std::move(p));
    }
    return made;
  }();
  return all;
}

}  // namespace

TEST_CASE("plans of random branches and loops pass the checker and the judge") {
  std::mt19937 random(80);
  size_t of_kind[3] = {}, nested = 0, guarded = 0;
  for (const Program& p : programs()) {
    const std::vector<std::string> found = check(p);
    REQUIRE_MESSAGE(found.empty(), text_of(found) << to_text(p));
    REQUIRE_MESSAGE(judge_regions(p, random, 8).good(), to_text(p));
    for (const Region& r : p.regions) {
      ++of_kind[static_cast<size_t>(r.kind)];
      nested += r.region != kNone;
    }
    for (const Body& b : p.bodies) {
      for (const Node& n : b.nodes) guarded += n.kernel != kNoKernel && n.region != kNone;
    }
  }
  CHECK(of_kind[0] > 150);
  CHECK(of_kind[1] > 40);
  CHECK(of_kind[2] > 100);
  CHECK(nested > test::rounds<size_t>(80));
  CHECK(guarded > test::rounds<size_t>(80));
}

TEST_CASE("regions with one thing made wrong: the checker refuses exactly the harmful ones") {
  for (const Mutation& mutation : mutations()) {
    INFO(mutation.name);
    std::mt19937 random(81);
    size_t harmful = 0, harmless = 0;
    for (int tries = 0; tries < test::rounds(6); ++tries) {
      for (const Program& good : programs()) {
        Program p = good;
        Mutator m(p, random);
        const Effect effect = mutation.apply(p, m);
        if (effect == Effect::none) continue;
        const std::vector<std::string> found = check(p);
        // Where the checker complains the judge looks longer: few ways may lead there.
        const int runs = found.empty() ? 12 : 400;
        const bool wrong = effect == Effect::wrong || !judge_regions(p, random, runs).good();
        wrong ? ++harmful : ++harmless;
        REQUIRE_MESSAGE(found.empty() != wrong, text_of(found) << to_text(p));
      }
    }
    MESSAGE(mutation.name << ": " << harmful << " harmful, " << harmless << " harmless");
    CHECK(harmful >= test::rounds(mutation.least));
  }
}
