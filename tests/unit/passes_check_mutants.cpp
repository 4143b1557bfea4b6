// Good Programs with one thing made wrong. Some changes are wrong whatever the Program; of the
// others a judge that knows nothing of the checker says whether they do harm: then the checker must
// refuse the mutant, else it must not.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "check_programs.hpp"
#include "judge_program.hpp"
#include "passes/check.hpp"
#include "random_program.hpp"
#include "rounds.hpp"

using namespace braid;
using namespace braid::test;

namespace {

/// Bodies and calls in turn.
std::vector<Program> scripts() {
  std::mt19937 random(71);
  std::vector<Program> all;
  for (uint32_t i = 0; i < 60; ++i) {
    all.push_back(
        random_program(random, {.nodes = 6, .lanes = 8, .runs = 1 + i % 6, .programmatic = true}));
  }
  return all;
}

// ---- what the contract says of scripts, runs and places, in other words than the checker's

/// The steps of one call, in order: "rwcW" for read, wait, call, write.
std::string steps_of(const Program& p, uint32_t call) {
  std::string steps;
  for (const Step& s : p.script) {
    if (s.kind != Step::Kind::launch && s.index == call) steps += "lrwcW"[static_cast<int>(s.kind)];
  }
  return steps;
}

bool script_is_right(const Program& p) {
  std::vector<int> launched(p.bodies.size(), 0);
  uint32_t run = 0;
  for (const Step& s : p.script) {
    if (s.kind == Step::Kind::launch) ++launched.at(s.index);
    if (s.kind == Step::Kind::read || s.kind == Step::Kind::wait) continue;
    const uint32_t next =
        s.kind == Step::Kind::launch ? p.bodies.at(s.index).run : p.calls.at(s.index).level;
    if (next < run) return false;
    run = next;
  }
  for (int n : launched) {
    if (n != 1) return false;
  }
  for (uint32_t c = 0; c < p.calls.size(); ++c) {
    std::set<std::string> allowed{"rwcW"};
    if (p.calls[c].results.empty()) allowed.insert("rwc");
    if (p.calls[c].args.empty()) {
      for (const std::string& steps : std::set<std::string>(allowed)) {
        allowed.insert(steps.substr(2));
      }
    }
    if (!allowed.contains(steps_of(p, c))) return false;
  }
  return true;
}

bool runs_are_right(const Program& p) {
  std::string colours(p.runs, '?');
  const auto paint = [&](uint32_t run, char colour) {
    if (run >= colours.size()) return false;
    if (colour == 'g' && colours[run] == 'g') return false;  // two graphs
    const bool fits = colours[run] == '?' || colours[run] == colour;
    colours[run] = colour;
    return fits;
  };
  for (const Body& b : p.bodies) {
    if (!b.nodes.empty() && !paint(b.run, b.stream ? 'h' : 'g')) return false;
    for (const Node& n : b.nodes) {
      if (n.level != b.run || n.earliest > n.level || n.level > n.latest) return false;
    }
  }
  for (const Call& c : p.calls) {
    if (!paint(c.level, 'h') || c.earliest > c.level || c.level > c.latest) return false;
  }
  for (const char first : {'g', 'h'}) {
    uint32_t graphs = 0;
    bool fits = true;
    for (uint32_t r = 0; r < p.runs; ++r) {
      const char colour = (r % 2 == 0) == (first == 'g') ? 'g' : 'h';
      fits = fits && (colours[r] == '?' || colours[r] == colour);
      graphs += colour == 'g';
    }
    if (fits && graphs == p.graphs) return true;
  }
  return false;
}

bool places_are_right(const Program& p) {
  for (const Body& body : p.bodies) {
    std::vector<uint32_t> length(body.lanes, 0);
    for (const Node& n : body.nodes) {
      if (n.position != length.at(n.lane)++) return false;
    }
    if (body.stream && body.lanes != 1) return false;
  }
  return true;
}

/// A programmatic edge needs a kernel that waits at its end.
bool edges_are_right(const Program& p) {
  for (const Body& body : p.bodies) {
    for (const Edge& e : body.edges) {
      const bool waits = p.kernels[body.nodes[e.to].kernel].waits;
      if (e.kind == EdgeKind::programmatic && (!waits || body.stream)) return false;
    }
  }
  return true;
}

/// Nodes and calls write no input, constant or scalar, and views show what is expected of them.
bool arguments_are_right(const Program& p) {
  const auto fits = [&](uint32_t view, uint32_t value, bool written) {
    const Segment s = p.buffers[p.views[view].buffer].segment;
    return p.views[view].value == value &&
           !(written && (s == Segment::input || s == Segment::constant || s == Segment::scalar));
  };
  for (const Body& body : p.bodies) {
    for (const Node& n : body.nodes) {
      for (size_t s = 0; s < n.args.size(); ++s) {
        const Role role = p.kernels[n.kernel].args[s].role;
        const uint32_t value = role == Role::inout ? p.views[n.args[s]].value : n.values[s];
        if (!fits(n.args[s], value, role != Role::in)) return false;
      }
    }
  }
  for (const Call& c : p.calls) {
    for (size_t i = 0; i < c.args.size(); ++i) {
      if (!fits(c.args[i], c.values[i], false)) return false;
    }
    for (size_t i = 0; i < c.results.size(); ++i) {
      if (!fits(c.results[i], c.result_values[i], true)) return false;
    }
  }
  return true;
}

bool does_harm(const Program& p) {
  return !script_is_right(p) || !runs_are_right(p) || !places_are_right(p) || !edges_are_right(p) ||
         !arguments_are_right(p) || !judge(p).good();
}

// ---- mutations

enum class Effect { none, wrong, maybe };  // does not apply; always wrong; the judge says

struct Mutation {
  std::string name;
  size_t least;  // harmful ones that there must be
  std::function<Effect(Program&, std::mt19937&)> apply;
};

template <class T>
T* any(std::vector<T>& from, std::mt19937& random) {
  return from.empty() ? nullptr : &from[below(random, from.size())];
}
template <class T>
T* any_that(std::vector<T>& from, std::mt19937& random, const std::function<bool(const T&)>& is) {
  std::vector<T*> found;
  for (T& x : from) {
    if (is(x)) found.push_back(&x);
  }
  return found.empty() ? nullptr : found[below(random, found.size())];
}
template <class T>
void drop(std::vector<T>& from, const T* what) {
  from.erase(from.begin() + (what - from.data()));
}

Effect drop_step(Program& p, std::mt19937& random, Step::Kind kind) {
  const Step* s = any_that<Step>(p.script, random, [&](const Step& x) { return x.kind == kind; });
  if (!s) return Effect::none;
  drop(p.script, s);
  return Effect::maybe;
}

Buffer* temp(Program& p, std::mt19937& random) {
  return any_that<Buffer>(
      p.buffers, random, [](const Buffer& b) { return b.segment == Segment::temp && b.bytes > 0; });
}

/// Levels, positions and edges as they would be had the node been there from the start.
void settle(Program& p) {
  for (Body& body : p.bodies) {
    std::vector<uint32_t> length(body.lanes, 0);
    for (Node& n : body.nodes) {
      n.level = n.earliest = n.latest = body.run;
      n.lane = std::min(n.lane, body.lanes - 1);
      n.position = length[n.lane]++;
    }
  }
  emit_edges(p, Options{});
}

bool move_to_other_body(Program& p, std::mt19937& random) {
  Body *from = any(p.bodies, random), *to = any(p.bodies, random);
  if (from == to || from->nodes.empty()) return false;
  const size_t n = below(random, from->nodes.size());
  Node node = from->nodes[n];
  from->nodes.erase(from->nodes.begin() + static_cast<std::ptrdiff_t>(n));
  // At the nearer end, where it has the best chance.
  to->nodes.insert(from->run < to->run ? to->nodes.begin() : to->nodes.end(), std::move(node));
  return true;
}

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all{
      {"an edge dropped", 300,
       [](Program& p, std::mt19937& random) {
         Body* b = any(p.bodies, random);
         const Edge* e = b ? any(b->edges, random) : nullptr;
         if (!e) return Effect::none;
         drop(b->edges, e);
         return Effect::maybe;
       }},
      {"a lane edge dropped", 200,
       [](Program& p, std::mt19937& random) {
         Body* b = any(p.bodies, random);
         const Edge* e =
             b ? any_that<Edge>(b->edges, random,
                                [](const Edge& x) { return x.reason == EdgeReason::lane; })
               : nullptr;
         if (!e) return Effect::none;
         drop(b->edges, e);
         return Effect::maybe;
       }},
      {"a temporary moved", 200,
       [](Program& p, std::mt19937& random) {
         Buffer* b = temp(p, random);
         if (!b) return Effect::none;
         const int64_t places = (p.arena_bytes - b->bytes) / 256 + 1;
         const int64_t to = 256 * int64_t{below(random, static_cast<size_t>(places))};
         if (to == b->offset) return Effect::none;
         b->offset = to;
         return Effect::maybe;
       }},
      {"a temporary over another", 200,
       [](Program& p, std::mt19937& random) {
         Buffer *a = temp(p, random), *b = temp(p, random);
         if (!a || a == b || a->offset == b->offset) return Effect::none;
         a->offset = b->offset;
         p.arena_bytes = std::max(p.arena_bytes, a->offset + a->bytes);
         return Effect::maybe;
       }},
      {"an arena too small", 200,
       [](Program& p, std::mt19937& random) {
         if (!temp(p, random)) return Effect::none;
         int64_t end = 0;
         for (const Buffer& b : p.buffers) {
           if (b.segment == Segment::temp) end = std::max(end, b.offset + b.bytes);
         }
         p.arena_bytes = end - 1;
         return Effect::wrong;
       }},
      {"a view moved in its buffer", 100,
       [](Program& p, std::mt19937& random) {
         View* v = any_that<View>(p.views, random, [&](const View& x) {
           return x.type.bytes() > 0 && x.type.bytes() < p.buffers[x.buffer].bytes;
         });
         if (!v) return Effect::none;
         const int64_t room = p.buffers[v->buffer].bytes - v->type.bytes();
         const int64_t to = int64_t{below(random, static_cast<size_t>(room + 1))};
         if (to == v->offset) return Effect::none;
         v->offset = to;
         // Where the parts of the mailbox lie is fixed.
         const bool part = p.buffers[v->buffer].segment == Segment::mailbox;
         return part ? Effect::wrong : Effect::maybe;
       }},
      {"the lanes of two nodes exchanged", 100,
       [](Program& p, std::mt19937& random) {
         Body* b = any(p.bodies, random);
         Node *x = b ? any(b->nodes, random) : nullptr, *y = b ? any(b->nodes, random) : nullptr;
         if (!x || x->lane == y->lane) return Effect::none;
         std::swap(x->lane, y->lane);
         std::swap(x->position, y->position);
         return Effect::maybe;
       }},
      {"a node on another lane, places counted anew", 100,
       [](Program& p, std::mt19937& random) {
         Body* b = any(p.bodies, random);
         Node* n = b ? any(b->nodes, random) : nullptr;
         if (!n || b->lanes == 1) return Effect::none;
         n->lane = (n->lane + 1 + below(random, b->lanes - 1)) % b->lanes;
         std::vector<uint32_t> length(b->lanes, 0);
         for (Node& x : b->nodes) x.position = length[x.lane]++;
         return Effect::maybe;
       }},
      {"two arguments exchanged", 200,
       [](Program& p, std::mt19937& random) {
         Body* b = any(p.bodies, random);
         Node* n = b ? any(b->nodes, random) : nullptr;
         if (!n || n->args.size() < 2) return Effect::none;
         const size_t s = below(random, n->args.size()), t = below(random, n->args.size());
         if (p.views[n->args[s]].type != p.views[n->args[t]].type) return Effect::none;
         if (n->args[s] == n->args[t]) return Effect::none;
         std::swap(n->args[s], n->args[t]);
         return Effect::maybe;
       }},
      {"a node that expects another value", 200,
       [](Program& p, std::mt19937& random) {
         Body* b = any(p.bodies, random);
         Node* n = b ? any(b->nodes, random) : nullptr;
         if (!n || n->args.empty()) return Effect::none;
         const size_t s = below(random, n->args.size());
         if (p.views[n->args[s]].type.bytes() == 0) return Effect::none;
         const bool inout = p.kernels[n->kernel].args[s].role == Role::inout;
         const uint32_t other = p.views[below(random, p.views.size())].value;
         uint32_t& value = inout && below(random, 2) ? n->values_before[s] : n->values[s];
         if (value == other) return Effect::none;
         value = other;
         return Effect::maybe;
       }},
      {"the wait gone from a kernel behind a programmatic edge", 50,
       [](Program& p, std::mt19937& random) {
         Body* b = any(p.bodies, random);
         const Edge* e =
             b ? any_that<Edge>(b->edges, random,
                                [](const Edge& x) { return x.kind == EdgeKind::programmatic; })
               : nullptr;
         if (!e) return Effect::none;
         p.kernels[b->nodes[e->to].kernel].waits = false;
         return Effect::wrong;
       }},
      {"an edge made programmatic", 200,
       [](Program& p, std::mt19937& random) {
         Body* b = any(p.bodies, random);
         Edge* e = b ? any(b->edges, random) : nullptr;
         if (!e || e->kind == EdgeKind::programmatic) return Effect::none;
         e->kind = EdgeKind::programmatic;
         return Effect::maybe;
       }},
      {"a graph made a stream, or a stream a graph", 100,
       [](Program& p, std::mt19937& random) {
         Body* b = any(p.bodies, random);
         if (!b || b->nodes.empty()) return Effect::none;
         b->stream = !b->stream;
         return Effect::maybe;
       }},
      {"a node in a body of another run, as it is", 100,
       [](Program& p, std::mt19937& random) {
         if (!move_to_other_body(p, random)) return Effect::none;
         for (Body& body : p.bodies) body.edges.clear();
         Program settled = p;
         settle(settled);
         // Places and edges are made right again, the levels stay.
         for (size_t b = 0; b < p.bodies.size(); ++b) {
           p.bodies[b].edges = settled.bodies[b].edges;
           for (size_t n = 0; n < p.bodies[b].nodes.size(); ++n) {
             p.bodies[b].nodes[n].lane = settled.bodies[b].nodes[n].lane;
             p.bodies[b].nodes[n].position = settled.bodies[b].nodes[n].position;
           }
         }
         return Effect::maybe;
       }},
      {"a node in another body, said to belong there", 50,
       [](Program& p, std::mt19937& random) {
         if (!move_to_other_body(p, random)) return Effect::none;
         settle(p);
         return Effect::maybe;
       }},
      {"a node of another level", 200,
       [](Program& p, std::mt19937& random) {
         Body* b = any(p.bodies, random);
         Node* n = b ? any(b->nodes, random) : nullptr;
         if (!n) return Effect::none;
         n->level += below(random, 2) || n->level == 0 ? 1 : UINT32_MAX;
         n->earliest = std::min(n->earliest, n->level);
         n->latest = std::max(n->latest, n->level);
         return Effect::wrong;
       }},
      {"a level outside its window", 200,
       [](Program& p, std::mt19937& random) {
         Body* b = any(p.bodies, random);
         Node* n = b ? any(b->nodes, random) : nullptr;
         if (!n) return Effect::none;
         n->earliest = n->level + 1;
         return Effect::wrong;
       }},
      {"a body of another run", 100,
       [](Program& p, std::mt19937& random) {
         Body* b = any(p.bodies, random);
         if (!b || b->nodes.empty()) return Effect::none;
         b->run = below(random, p.runs + 1);
         for (Node& n : b->nodes) n.level = n.earliest = n.latest = b->run;
         return Effect::maybe;
       }},
      {"a call of another run", 100,
       [](Program& p, std::mt19937& random) {
         Call* c = any(p.calls, random);
         if (!c) return Effect::none;
         c->level = c->earliest = c->latest = below(random, p.runs + 1);
         return Effect::maybe;
       }},
      {"another number of graphs", 200,
       [](Program& p, std::mt19937& random) {
         if (p.graphs == 0 || below(random, 2)) {
           ++p.graphs;
         } else {
           --p.graphs;
         }
         return Effect::maybe;
       }},
      {"two steps exchanged", 200,
       [](Program& p, std::mt19937& random) {
         Step *a = any(p.script, random), *b = any(p.script, random);
         if (a == b) return Effect::none;
         std::swap(*a, *b);
         return Effect::maybe;
       }},
      {"a step twice", 200,
       [](Program& p, std::mt19937& random) {
         const Step* s = any(p.script, random);
         if (!s) return Effect::none;
         const Step again = *s;
         p.script.insert(p.script.begin() + below(random, p.script.size() + 1), again);
         return Effect::wrong;
       }},
      {"no launch", 100,
       [](Program& p, std::mt19937& r) { return drop_step(p, r, Step::Kind::launch); }},
      {"no read", 50,
       [](Program& p, std::mt19937& r) { return drop_step(p, r, Step::Kind::read); }},
      {"no wait", 50,
       [](Program& p, std::mt19937& r) { return drop_step(p, r, Step::Kind::wait); }},
      {"no call", 50,
       [](Program& p, std::mt19937& r) { return drop_step(p, r, Step::Kind::call); }},
      {"no write", 50,
       [](Program& p, std::mt19937& r) { return drop_step(p, r, Step::Kind::write); }},
      {"a read at another place", 50,
       [](Program& p, std::mt19937& random) {
         Step* s = any_that<Step>(p.script, random,
                                  [](const Step& x) { return x.kind == Step::Kind::read; });
         if (!s) return Effect::none;
         const Step read = *s;
         drop(p.script, static_cast<const Step*>(s));
         p.script.insert(p.script.begin() + below(random, p.script.size() + 1), read);
         return Effect::maybe;
       }},
      {"another view in a call", 100,
       [](Program& p, std::mt19937& random) {
         Call* c = any(p.calls, random);
         if (!c) return Effect::none;
         uint32_t* view = any(below(random, 2) ? c->args : c->results, random);
         const uint32_t other = below(random, p.views.size());
         if (!view || *view == other || p.views[*view].value == p.views[other].value) {
           return Effect::none;
         }
         *view = other;
         return Effect::maybe;
       }},
      {"another number of parts", 200,
       [](Program& p, std::mt19937& random) {
         Kernel* k = any(p.kernels, random);
         if (!k) return Effect::none;
         const uint32_t parts = below(random, 4);
         if (parts == k->parts) return Effect::none;
         k->parts = parts;
         return Effect::wrong;
       }},
      {"an index out of range", 200,
       [](Program& p, std::mt19937& random) {
         Body* b = any(p.bodies, random);
         Node* n = b ? any(b->nodes, random) : nullptr;
         const uint32_t beyond = below(random, 2) ? UINT32_MAX : 1'000'000;
         switch (below(random, 8)) {
           case 0:
             if (Step* s = any(p.script, random)) return s->index = beyond, Effect::wrong;
             return Effect::none;
           case 1:
             if (n) return n->kernel = beyond, Effect::wrong;
             return Effect::none;
           case 2:
             if (n && !n->args.empty()) return n->args[0] = beyond, Effect::wrong;
             return Effect::none;
           case 3:
             if (Edge* e = b ? any(b->edges, random) : nullptr)
               return e->to = beyond, Effect::wrong;
             return Effect::none;
           case 4:
             if (Call* c = any(p.calls, random)) {
               return c->results.push_back(beyond), c->result_values.push_back(0), Effect::wrong;
             }
             return Effect::none;
           case 5:
             if (View* v = any(p.views, random)) return v->buffer = beyond, Effect::wrong;
             return Effect::none;
           case 6:
             if (Step* s = any(p.script, random)) {
               return s->kind = static_cast<Step::Kind>(9), Effect::wrong;
             }
             return Effect::none;
           default:
             if (Kernel* k = any(p.kernels, random)) {
               return k->in_place.push_back({beyond, 0}), Effect::wrong;
             }
             return Effect::none;
         }
       }},
  };
  return all;
}

std::string text_of(const std::vector<std::string>& found) {
  return found.empty() ? "accepted" : found[0];
}

}  // namespace

TEST_CASE("mutants: the checker refuses exactly those that do harm") {
  std::mt19937 random(72);
  std::vector<Program> good = compiled_programs();
  for (Program& p : scripts()) good.push_back(std::move(p));
  std::map<std::string, size_t> harmful, harmless;
  for (const Program& p : good) {
    REQUIRE_MESSAGE(check(p).empty(), text_of(check(p)));
    REQUIRE(!does_harm(p));
    for (const Mutation& m : mutations()) {
      for (int i = 0; i < test::rounds(12); ++i) {
        Program mutant = p;
        const Effect effect = m.apply(mutant, random);
        if (effect == Effect::none) continue;
        const bool harm = effect == Effect::wrong || does_harm(mutant);
        const std::vector<std::string> found = check(mutant);
        CHECK_MESSAGE(harm == !found.empty(), m.name, " in ", p.name, ": ", text_of(found));
        ++(harm ? harmful : harmless)[m.name];
      }
    }
  }
  for (const Mutation& m : mutations()) {
    CHECK_MESSAGE(harmful[m.name] >= test::rounds(m.least), m.name, ": ", harmful[m.name],
                  " harmful, ", harmless[m.name], " not");
  }
}

TEST_CASE("numbers out of all range, anywhere: refused, and nothing is followed") {
  std::mt19937 random(74);
  std::vector<Program> good = compiled_programs();
  for (Program& p : scripts()) good.push_back(std::move(p));
  size_t refused = 0;
  for (const Program& p : good) {
    for (int i = 0; i < test::rounds(40); ++i) {
      Program mutant = p;
      // What is followed as an index or place, or bounds one; and what is not.
      std::vector<uint32_t*> indices, others;
      std::vector<int64_t*> offsets;
      for (Buffer& b : mutant.buffers) offsets.insert(offsets.end(), {&b.offset, &b.bytes});
      for (View& v : mutant.views) {
        indices.push_back(&v.buffer);
        offsets.push_back(&v.offset);
        others.push_back(&v.value);
      }
      for (Kernel& k : mutant.kernels) {
        indices.push_back(&k.parts);
        for (InPlace& pair : k.in_place) indices.insert(indices.end(), {&pair.in, &pair.out});
      }
      const auto all = [](std::vector<uint32_t*>& to, std::vector<uint32_t>& from) {
        for (uint32_t& x : from) to.push_back(&x);
      };
      for (Body& b : mutant.bodies) {
        indices.insert(indices.end(), {&b.lanes, &b.run});
        for (Node& n : b.nodes) {
          indices.insert(indices.end(), {&n.kernel, &n.lane, &n.position, &n.level, &n.earliest});
          others.push_back(&n.latest);
          all(indices, n.args);
          all(others, n.values);
          all(others, n.values_before);
        }
        for (Edge& e : b.edges) {
          indices.insert(indices.end(), {&e.from, &e.to});
          others.push_back(&e.buffer);
        }
      }
      for (Call& c : mutant.calls) {
        indices.insert(indices.end(), {&c.level, &c.earliest});
        all(indices, c.args);
        all(indices, c.results);
        all(others, c.values);
        all(others, c.result_values);
      }
      for (Step& s : mutant.script) indices.push_back(&s.index);
      for (Binding& b : mutant.inputs) indices.push_back(&b.buffer);
      for (Binding& b : mutant.outputs) indices.push_back(&b.buffer);
      for (ParamBinding& b : mutant.params) indices.push_back(&b.buffer);
      for (ScalarBinding& b : mutant.scalars) indices.push_back(&b.buffer);
      others.insert(others.end(), {&mutant.runs, &mutant.graphs});
      const uint32_t far[] = {UINT32_MAX, UINT32_MAX - 1, uint32_t{1} << 31, 1'000'000};
      const int64_t further[] = {INT64_MAX, INT64_MIN, -256, int64_t{1} << 62};
      bool must = true;
      switch (below(random, 4)) {
        case 0:
          **any(offsets, random) = further[below(random, 4)];
          break;
        case 1:
          **any(others, random) = far[below(random, 4)];
          must = false;
          break;
        default:
          **any(indices, random) = far[below(random, 4)];
      }
      const std::vector<std::string> found = check(mutant);
      if (must) CHECK(!found.empty());
      refused += !found.empty();
    }
  }
  CHECK(refused > test::rounds<size_t>(2'000));
}
