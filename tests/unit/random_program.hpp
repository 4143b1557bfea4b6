// Programs at random, right by construction: several bodies and host calls in turn, nodes that
// read and write any stretches of a few overlapping buffers, in place too, on any lanes. Which
// value lies where is tracked while the script is written, so that all of it is known; the edges
// are made by emit_edges.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "ir/program.hpp"
#include "passes/plan.hpp"

namespace braid::test {

struct RandomProgramOptions {
  uint32_t nodes = 8;  // at most, of a body
  uint32_t lanes = 8;  // at most
  uint32_t runs = 1;   // the first is a graph with one, either with more
  bool programmatic = false;
};

class RandomProgram {
 public:
  RandomProgram(std::mt19937& random, const RandomProgramOptions& options)
      : random_(random), o_(options) {}

  Program make() {
    buffers();
    const bool host_first = o_.runs > 1 && chance(2);
    p_.runs = o_.runs;
    p_.graphs = host_first ? o_.runs / 2 : o_.runs - o_.runs / 2;
    for (uint32_t run = 0; run < o_.runs; ++run) {
      const bool host = (run % 2 == 1) != host_first;
      // A call may read before the run of graphs that comes first.
      if (!host && run + 1 < o_.runs && chance(2)) early_ = begin_call(run + 1);
      if (host) {
        host_run(run);
      } else {
        launch(run, false);
      }
    }
    for (const Held& h : held_) {
      for (ParamBinding& b : p_.params) {
        if (b.buffer == p_.views[h.view].buffer) b.last_value = p_.views[h.view].value;
      }
      if (p_.views[h.view].buffer == output_) {
        p_.outputs.push_back({"y", output_, p_.views[h.view].value});
      }
    }
    for (ParamBinding& b : p_.params) b.written = b.first_value != b.last_value;
    emit_edges(p_, Options{});
    for (Body& body : p_.bodies) {
      if (body.stream && chance(2)) body.edges.clear();
      if (body.stream || !o_.programmatic) continue;
      for (Edge& e : body.edges) {
        if (p_.kernels[body.nodes[e.to].kernel].waits && chance(2)) {
          e.kind = EdgeKind::programmatic;
        }
      }
    }
    return std::move(p_);
  }

 private:
  /// A value that lies whole where its view says.
  struct Held {
    uint32_t view;
    int64_t space, lo, hi;
  };

  uint32_t below(size_t n) { return static_cast<uint32_t>(random_() % n); }
  bool chance(uint32_t one_in) { return below(one_in) == 0; }

  static TensorType bytes(int64_t n) { return {DType::u8, Shape::of(std::vector<int64_t>{n})}; }

  uint32_t buffer(Segment segment, int64_t n, int64_t offset = 0) {
    const auto b = static_cast<uint32_t>(p_.buffers.size());
    p_.buffers.push_back({"b" + std::to_string(b), segment, bytes(n), n, offset});
    return b;
  }

  void buffers() {
    hold(view(buffer(Segment::input, 64), 0, 64));
    p_.inputs.push_back({"x", 0, value_ - 1});
    p_.constants.resize(300);
    hold(view(buffer(Segment::constant, 44, 256), 0, 44));
    p_.scalar_bytes = kScalarAlignment;
    const uint32_t scalar = buffer(Segment::scalar, 1);
    hold(view(scalar, 0, 1));
    p_.scalars.push_back({"s", scalar, value_ - 1, 0.0});
    for (int i = 0; i < 2; ++i) {
      const uint32_t b = buffer(Segment::param, 64);
      hold(view(b, 0, 64));
      p_.params.push_back(
          {"p" + std::to_string(i), b, ir::Init::normal, 0.05, false, value_ - 1, value_ - 1});
      whole_.push_back(b);
    }
    output_ = buffer(Segment::output, 64);
    whole_.push_back(output_);
    const uint32_t scratch = buffer(Segment::output, 500);
    parts_.push_back(scratch);
    for (int i = 0; i < 5; ++i) {
      const int64_t sizes[] = {64, 100, 256, 300, 700};
      parts_.push_back(buffer(Segment::temp, sizes[below(5)], 256 * int64_t{below(6)}));
      const Buffer& b = p_.buffers.back();
      p_.arena_bytes = std::max(p_.arena_bytes, b.offset + b.bytes);
    }
  }

  /// A view of a new value.
  uint32_t view(uint32_t buffer, int64_t offset, int64_t n) {
    p_.views.push_back({buffer, offset, bytes(n), {1}, value_++});
    return static_cast<uint32_t>(p_.views.size() - 1);
  }
  Held place_of(uint32_t view) const {
    const View& v = p_.views[view];
    const Buffer& b = p_.buffers[v.buffer];
    const int64_t lo = b.offset + v.offset;
    return {view, b.segment == Segment::temp ? int64_t{-1} : int64_t{v.buffer}, lo,
            lo + v.type.bytes()};
  }
  static bool meet(const Held& a, const Held& b) {
    return a.space == b.space && a.lo < b.hi && b.lo < a.hi;
  }
  /// The value of a view is where it says from here on; what it overwrites is gone.
  void hold(uint32_t view) {
    const Held h = place_of(view);
    std::erase_if(held_, [&](const Held& other) { return meet(h, other); });
    held_.push_back(h);
  }

  /// Where a new value of `n` bytes (0: any size) may go.
  uint32_t place(int64_t n) {
    const uint32_t whole = whole_[below(whole_.size())];
    if ((n == 0 || n == p_.buffers[whole].bytes) && chance(5)) {
      return view(whole, 0, p_.buffers[whole].bytes);
    }
    for (;;) {
      const uint32_t b = parts_[below(parts_.size())];
      const int64_t sizes[] = {1, 7, 64, 64, 64, 200};
      const int64_t size = n ? n : sizes[below(6)], room = p_.buffers[b].bytes;
      if (size <= room) return view(b, int64_t{below(static_cast<size_t>(room - size + 1))}, size);
    }
  }
  /// Views of values that nothing uses are no part of the Program.
  void forget(uint32_t view) {
    if (view + 1 == p_.views.size()) p_.views.pop_back();
  }

  struct Used {
    std::vector<uint32_t> in, inout, inout_before, out;
    uint32_t in_place = UINT32_MAX;  // an index of `in`: the first of `out` lies there
  };

  /// What one part of a node reads and writes; `taken` receives the places.
  void choose(Used& u, std::vector<Held>& taken) {
    const auto free = [&](const Held& h, bool write) {
      return std::none_of(taken.begin(), taken.end(),
                          [&](const Held& t) { return meet(h, t) && (write || written(t)); });
    };
    for (uint32_t i = below(4); i > 0; --i) {
      const Held h = held_[below(held_.size())];
      if (!free(h, false)) continue;
      taken.push_back(h);
      u.in.push_back(h.view);
    }
    if (chance(4)) {  // over an operand
      for (uint32_t i = 0; i < u.in.size(); ++i) {
        const Held h = place_of(u.in[i]);
        const uint32_t b = p_.views[h.view].buffer;
        const auto meets = [&](const Held& t) { return meet(h, t); };
        if (std::count_if(taken.begin(), taken.end(), meets) != 1 || !writable(b)) continue;
        u.in_place = i;
        u.out.push_back(view(b, p_.views[h.view].offset, p_.views[h.view].type.bytes()));
        written_.push_back(u.out.back());
        taken.push_back(place_of(u.out.back()));
        break;
      }
    }
    if (chance(4)) {  // a new version of a value where it is
      const Held h = held_[below(held_.size())];
      const uint32_t b = p_.views[h.view].buffer;
      if (free(h, true) && writable(b)) {
        u.inout_before.push_back(p_.views[h.view].value);
        u.inout.push_back(view(b, p_.views[h.view].offset, p_.views[h.view].type.bytes()));
        written_.push_back(u.inout.back());
        taken.push_back(place_of(u.inout.back()));
      }
    }
    for (uint32_t i = below(3); i > 0; --i) {
      const uint32_t v = place(0);
      if (!free(place_of(v), true)) {
        forget(v);
        continue;
      }
      written_.push_back(v);
      taken.push_back(place_of(v));
      u.out.push_back(v);
    }
  }
  bool written(const Held& h) const {
    return std::find(written_.begin(), written_.end(), h.view) != written_.end();
  }
  bool writable(uint32_t b) const {
    const Segment s = p_.buffers[b].segment;
    return s == Segment::temp || s == Segment::param || s == Segment::output;
  }

  void node(Body& body) {
    Used u;
    std::vector<Held> taken;
    written_.clear();
    choose(u, taken);
    Kernel k;
    k.waits = chance(2);
    k.symbol = "k" + std::to_string(p_.kernels.size());
    k.body.name = k.symbol;
    Node n;
    std::vector<ir::ValueId> inputs;
    const auto named = [&](const char* stem, size_t i) { return stem + std::to_string(i); };
    const auto slot = [&](std::string name, Role role, uint32_t view, uint32_t before) {
      k.args.push_back({std::move(name), role, p_.views[view].type});
      n.args.push_back(view);
      n.values.push_back(p_.views[view].value);
      n.values_before.push_back(before);
    };
    for (size_t i = 0; i < u.in.size(); ++i) {
      const std::string name = named("a", i);
      inputs.push_back(k.body.add(
          {ir::OpKind::input, {}, {}, p_.views[u.in[i]].type, k.body.strings.intern(name)}));
      slot(name, Role::in, u.in[i], UINT32_MAX);
    }
    std::vector<ir::ValueId> params;
    for (size_t i = 0; i < u.inout.size(); ++i) {
      const std::string name = named("s", i);
      params.push_back(k.body.add({ir::OpKind::param,
                                   ir::ParamAttr{},
                                   {},
                                   p_.views[u.inout[i]].type,
                                   k.body.strings.intern(name)}));
      slot(name, Role::inout, u.inout[i], u.inout_before[i]);
    }
    for (ir::ValueId s : params) {
      const ir::ValueId old = k.body.add({ir::OpKind::read, {}, {s}});
      k.body.add({ir::OpKind::assign,
                  {},
                  {s, k.body.add({ir::OpKind::map, ir::MapAttr{Fn::relu}, {old}})}});
    }
    for (size_t i = 0; i < u.out.size(); ++i) {
      const std::string name = named("r", i);
      const bool over = i == 0 && u.in_place != UINT32_MAX;
      const ir::ValueId v =
          over ? k.body.add({ir::OpKind::map, ir::MapAttr{Fn::relu}, {inputs[u.in_place]}})
               : k.body.splat(p_.views[u.out[i]].type, 1);
      k.body.outputs.push_back({name, v, {}});
      if (over) k.in_place.push_back({static_cast<uint32_t>(k.args.size()), u.in_place});
      slot(name, Role::out, u.out[i], UINT32_MAX);
    }
    for (uint32_t v : u.inout) hold(v);
    for (uint32_t v : u.out) hold(v);
    if (k.args.size() > 0 && chance(6)) more_parts(k, n);
    n.kernel = static_cast<uint32_t>(p_.kernels.size());
    p_.kernels.push_back(std::move(k));
    body.nodes.push_back(std::move(n));
  }

  /// A second part, if every slot finds what it needs: inputs of the same type, other outputs.
  void more_parts(Kernel& k, Node& n) {
    std::vector<Held> taken;
    for (uint32_t v : n.args) taken.push_back(place_of(v));
    const auto free = [&](const Held& h) {
      return std::none_of(taken.begin(), taken.end(), [&](const Held& t) { return meet(h, t); });
    };
    const size_t slots = k.args.size();
    std::vector<uint32_t> args;
    for (size_t s = 0; s < slots; ++s) {
      const int64_t size = k.args[s].type.bytes();
      uint32_t found = UINT32_MAX;
      if (k.args[s].role == Role::in) {
        for (const Held& h : held_) {
          if (h.hi - h.lo == size && free(h)) found = h.view;
        }
      } else if (k.args[s].role == Role::out) {
        found = place(size);
        if (!free(place_of(found))) {
          forget(found);
          found = UINT32_MAX;
        }
      }
      if (found == UINT32_MAX) {
        for (size_t i = args.size(); i-- > 0;) {
          if (k.args[i].role == Role::out) forget(args[i]);
        }
        return;
      }
      args.push_back(found);
      taken.push_back(place_of(found));
    }
    k.parts = k.launch.grid[1] = 2;
    for (size_t s = 0; s < slots; ++s) {
      k.args.push_back(k.args[s]);
      n.args.push_back(args[s]);
      n.values.push_back(p_.views[args[s]].value);
      n.values_before.push_back(UINT32_MAX);
      if (k.args[s].role == Role::out) hold(args[s]);
    }
  }

  void launch(uint32_t run, bool stream) {
    Body body;
    body.run = run;
    body.stream = stream;
    body.lanes = stream ? 1 : 1 + below(o_.lanes);
    std::vector<uint32_t> length(body.lanes, 0);
    for (uint32_t i = 1 + below(o_.nodes); i > 0; --i) {
      node(body);
      Node& n = body.nodes.back();
      n.level = n.earliest = n.latest = run;
      n.lane = below(body.lanes);
      n.position = length[n.lane]++;
    }
    p_.script.push_back({Step::Kind::launch, static_cast<uint32_t>(p_.bodies.size())});
    p_.bodies.push_back(std::move(body));
  }

  uint32_t begin_call(uint32_t run) {
    Call c;
    c.function = "f" + std::to_string(p_.calls.size());
    c.level = c.earliest = c.latest = run;
    for (uint32_t i = below(3); i > 0; --i) {
      const uint32_t v = held_[below(held_.size())].view;
      c.args.push_back(v);
      c.values.push_back(p_.views[v].value);
    }
    const auto index = static_cast<uint32_t>(p_.calls.size());
    if (!c.args.empty()) p_.script.push_back({Step::Kind::read, index});
    p_.calls.push_back(std::move(c));
    return index;
  }
  void end_call(uint32_t index) {
    Call& c = p_.calls[index];
    if (!c.args.empty()) p_.script.push_back({Step::Kind::wait, index});
    p_.script.push_back({Step::Kind::call, index});
    std::vector<Held> taken;
    for (uint32_t i = below(3); i > 0; --i) {
      const uint32_t v = place(0);
      const Held h = place_of(v);
      if (std::any_of(taken.begin(), taken.end(), [&](const Held& t) { return meet(h, t); })) {
        forget(v);
        continue;
      }
      taken.push_back(h);
      c.results.push_back(v);
      c.result_values.push_back(p_.views[v].value);
    }
    if (!c.results.empty()) p_.script.push_back({Step::Kind::write, index});
    for (uint32_t v : c.results) hold(v);
  }

  void host_run(uint32_t run) {
    if (early_ != UINT32_MAX) end_call(early_);
    early_ = UINT32_MAX;
    for (uint32_t i = 1 + below(3); i > 0; --i) {
      if (chance(3)) {
        launch(run, true);
      } else {
        end_call(begin_call(run));
      }
    }
  }

  std::mt19937& random_;
  RandomProgramOptions o_;
  Program p_;
  std::vector<Held> held_;
  std::vector<uint32_t> whole_, parts_;  // buffers: written whole, or anywhere
  std::vector<uint32_t> written_;        // views that the node in the making writes
  uint32_t output_ = 0, value_ = 0;
  uint32_t early_ = UINT32_MAX;  // a call that has read already
};

inline Program random_program(std::mt19937& random, const RandomProgramOptions& options) {
  return RandomProgram(random, options).make();
}

}  // namespace braid::test
