// The checker's last part: order and values, script by script.
//
// A side of a region is walked by itself: it may rely on what its region says of the bytes around
// it (Region::slots, and State::entry), and must leave what that promises (State::exit). Around it
// the region is one node or step with these accesses. A loop's entry is a name for whatever its
// state holds when an iteration begins, so one walk stands for all iterations.
#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "passes/check_memory.hpp"

namespace braid::checking {
namespace {

class Walk {
 public:
  /// Of one side of a region, or of the outermost script. `written` receives buffers.
  Walk(const Facts& facts, Findings& out, std::set<uint32_t>& written, uint32_t region,
       uint32_t side)
      : facts_(facts),
        p_(facts.p),
        out_(out),
        written_(written),
        region_(region),
        side_(side),
        memory_(facts) {}

  void outermost() {
    start();
    steps(p_.script);
    if (!out_.full()) finish();
  }

  void side() {
    const Region& r = p_.regions[region_];
    enter(r);
    if (r.kind == Region::Kind::node) {
      steps({{Step::Kind::launch, r.bodies[side_]}});
    } else {
      steps(r.scripts[side_]);
    }
    if (!out_.full()) leave(r);
  }

 private:
  struct Access {
    uint32_t view;
    uint32_t value;
    Tag tag;
  };

  void steps(const std::vector<Step>& script) {
    for (const Step& s : script) {
      if (out_.full()) return;
      if (s.kind == Step::Kind::launch) launch(p_.bodies[s.index]);
      if (s.kind == Step::Kind::read) read(s.index);
      if (s.kind == Step::Kind::write) write(s.index);
      if (s.kind == Step::Kind::region) region(s.index);
      ++step_;
    }
  }

  /// Before the first launch inputs, params and scalars hold their values, all else nothing.
  void start() {
    const auto hold = [&](uint32_t buffer, uint32_t value) {
      const Buffer& b = p_.buffers[buffer];
      memory_.put({int64_t{buffer}, b.offset, b.offset + b.bytes}, value);
    };
    for (const Binding& b : p_.inputs) hold(b.buffer, b.value);
    for (const ParamBinding& b : p_.params) hold(b.buffer, b.first_value);
    for (const ScalarBinding& b : p_.scalars) hold(b.buffer, b.value);
  }

  void finish() {
    for (const Binding& b : p_.outputs) {
      at_the_end(b.buffer, b.value, fmt::format("output '{}'", b.name));
    }
    for (const ParamBinding& b : p_.params) {
      at_the_end(b.buffer, b.last_value, fmt::format("param '{}'", b.name));
      if (b.written != written_.contains(b.buffer)) {
        out_.add("param '{}' is said {}to be written, but it is{}", b.name, b.written ? "" : "not ",
                 b.written ? " not" : "");
      }
    }
  }
  void at_the_end(uint32_t buffer, uint32_t value, const std::string& what) {
    const Buffer& b = p_.buffers[buffer];
    if (memory_.holds({buffer, b.offset, b.offset + b.bytes}, value)) return;
    out_.add("at the end {} does not hold value {}", what, value);
  }

  void enter(const Region& r) {
    for (size_t s = 0; s < r.slots.size(); ++s) {
      if (r.slots[s].role == Role::in) {
        memory_.put(range_of(p_, r.args[s]), r.values[s]);
      } else {
        const Range range = range_of(p_, r.args[s]);
        if (range.lo < range.hi) writable_.push_back(range);
      }
    }
    for (const Region::State& s : r.states) memory_.put(range_of(p_, s.view), s.entry[side_]);
    std::sort(writable_.begin(), writable_.end(), [](const Range& a, const Range& b) {
      return std::pair(a.space, a.lo) < std::pair(b.space, b.lo);
    });
  }

  void leave(const Region& r) {
    for (const Region::State& s : r.states) {
      if (s.exit[side_] == kNone || memory_.holds(range_of(p_, s.view), s.exit[side_])) continue;
      out_.add("at the end of {} {} does not hold value {}", side_name(p_, region_, side_),
               buffer_name(p_, p_.views[s.view].buffer), s.exit[side_]);
    }
  }

  void launch(const Body& body) {
    const Clock clock(p_, body, out_);
    for (uint32_t n = 0; n < body.nodes.size() && !out_.full(); ++n) {
      const Node& node = body.nodes[n];
      const bool conditional = node.kernel == kNoKernel;
      const bool guarded = !conditional && p_.kernels[node.kernel].guard;
      const Tag tag = guarded ? Tag{node.region, node.branch} : Tag{};
      const std::vector<ArgSlot>& slots = slots_of(p_, node);
      std::vector<Access> reads, writes;
      for (size_t s = 0; s < slots.size(); ++s) {
        const Role role = slots[s].role;
        // Whether it runs is asked by the nodes of all sides.
        const Tag asks = guarded && s + 1 == slots.size() ? Tag{} : tag;
        if (role == Role::in) reads.push_back({node.args[s], node.values[s], asks});
        if (role == Role::inout) reads.push_back({node.args[s], node.values_before[s], tag});
        if (role != Role::inout && p_.views[node.args[s]].value != node.values[s]) {
          out_.add("argument {} of {} is a view of value {}, but the node needs value {}", s,
                   node_name(p_, body, n), p_.views[node.args[s]].value, node.values[s]);
        }
        if (role == Role::in) continue;
        const uint32_t left = conditional ? facts_.left[node.region][s] : node.values[s];
        writes.push_back({node.args[s], left, tag});
        may_write(node.args[s], node_name(p_, body, n));
      }
      apart(slots, node.args, conditional ? kNone : node.kernel,
            [&] { return node_name(p_, body, n); });
      for (const Access& a : reads) node_reads(body, clock, n, a);
      for (const Access& a : writes) node_writes(body, clock, n, a);
    }
    // Another graph does not see them.
    for (const Range& r : handles_) memory_.put(r, kNone);
    handles_.clear();
  }

  /// A region that the host drives.
  void region(uint32_t index) {
    const Region& r = p_.regions[index];
    for (size_t s = 0; s < r.slots.size(); ++s) {
      const Role role = r.slots[s].role;
      const uint32_t view = r.args[s];
      if (role != Role::inout && p_.views[view].value != r.values[s]) {
        out_.add("argument {} of {} is a view of value {}, but the region needs value {}", s,
                 region_name(p_, index), p_.views[view].value, r.values[s]);
      }
      const uint32_t value = role == Role::in ? r.values[s] : r.values_before[s];
      if (role == Role::inout) name_ring(range_of(p_, view), p_.views[view].buffer, value);
      const bool holds = in_mailbox(p_, view) || memory_.holds(range_of(p_, view), value);
      if (role != Role::out && !holds) {
        out_.add("{} finds {} without value {}", region_name(p_, index),
                 buffer_name(p_, p_.views[view].buffer), value);
      }
      if (role != Role::in) may_write(view, region_name(p_, index));
    }
    apart(r.slots, r.args, kNone, [&] { return region_name(p_, index); });
    for (size_t s = 0; s < r.slots.size(); ++s) {
      if (r.slots[s].role != Role::in) memory_.put(range_of(p_, r.args[s]), facts_.left[index][s]);
    }
  }

  void read(uint32_t c) {
    const Call& call = p_.calls[c];
    for (size_t i = 0; i < call.args.size() && !out_.full(); ++i) {
      if (p_.views[call.args[i]].value != call.values[i]) {
        out_.add("argument {} of {} is a view of value {}, but the call needs value {}", i,
                 call_name(p_, c), p_.views[call.args[i]].value, call.values[i]);
      }
      if (memory_.holds(range_of(p_, call.args[i]), call.values[i])) continue;
      out_.add("{} reads {} for value {}, which it does not hold", call_name(p_, c),
               buffer_name(p_, p_.views[call.args[i]].buffer), call.values[i]);
    }
  }

  void write(uint32_t c) {
    const Call& call = p_.calls[c];
    std::vector<Range> ranges;
    for (size_t i = 0; i < call.results.size(); ++i) {
      const uint32_t view = call.results[i];
      if (p_.views[view].value != call.result_values[i]) {
        out_.add("result {} of {} is a view of value {}, but the call gives value {}", i,
                 call_name(p_, c), p_.views[view].value, call.result_values[i]);
      }
      may_write(view, call_name(p_, c));
      ranges.push_back(range_of(p_, view));
      memory_.put(ranges.back(), call.result_values[i]);
    }
    for (size_t i = 0; i < ranges.size() && !out_.full(); ++i) {
      if (memory_.holds(ranges[i], call.result_values[i])) continue;
      out_.add("{} writes a result over its result {}", call_name(p_, c), i);
    }
  }

  void may_write(uint32_t view, const std::string& who) {
    const uint32_t buffer = p_.views[view].buffer;
    const Segment segment = p_.buffers[buffer].segment;
    if (segment == Segment::input || segment == Segment::constant || segment == Segment::scalar) {
      out_.add("{} writes the {} '{}'", who, name_of(segment), p_.buffers[buffer].name);
    }
    written_.insert(buffer);
    if (segment == Segment::handle) {
      // It must be set whenever its node comes up, so where that is, or at the end of its loop.
      const auto of = facts_.handle_of.find(buffer);
      const bool known = of != facts_.handle_of.end();
      const bool here = known && p_.regions[of->second].region == region_ &&
                        p_.regions[of->second].branch == side_;
      if (!here && !(known && of->second == region_ && p_.regions[region_].loop)) {
        out_.add("{} sets {}, whose node is elsewhere", who, buffer_name(p_, buffer));
      }
      if (here) handles_.push_back(range_of(p_, view));
    } else if (region_ != kNone && !may_reach(range_of(p_, view))) {
      out_.add("{} writes {}, which {} does not say", who, buffer_name(p_, buffer),
               region_name(p_, region_));
    }
  }

  bool may_reach(const Range& r) const {
    if (r.lo == r.hi) return true;
    auto it =
        std::upper_bound(writable_.begin(), writable_.end(), r, [](const Range& a, const Range& b) {
          return std::pair(a.space, a.lo) < std::pair(b.space, b.lo);
        });
    if (it == writable_.begin()) return false;
    --it;
    return it->space == r.space && r.hi <= it->hi;
  }

  /// Arguments of one node may not overlap if one is written, since threads run in no order, but
  /// for what the kernel does in place on the very same bytes.
  template <class Name>
  void apart(const std::vector<ArgSlot>& slots, const std::vector<uint32_t>& args, uint32_t kernel,
             const Name& name) {
    struct Used {
      Range range;
      size_t slot;
    };
    std::vector<Used> used, reads, writes;  // the latter two: those that may reach further
    for (size_t s = 0; s < slots.size(); ++s) {
      const Range r = range_of(p_, args[s]);
      if (r.lo < r.hi) used.push_back({r, s});
    }
    std::sort(used.begin(), used.end(), [](const Used& a, const Used& b) {
      return std::pair(a.range.space, a.range.lo) < std::pair(b.range.space, b.range.lo);
    });
    for (const Used& u : used) {
      const auto over = [&](const Used& other) {
        return other.range.space != u.range.space || other.range.hi <= u.range.lo;
      };
      std::erase_if(reads, over);
      std::erase_if(writes, over);
      const bool write = slots[u.slot].role != Role::in;
      const auto refused = [&](const Used& other) {
        const size_t out = write ? u.slot : other.slot, in = write ? other.slot : u.slot;
        return u.range != other.range || !may_share(kernel, out, in);
      };
      // Writes are apart from each other, so there is one here at most.
      const Used* wrong = nullptr;
      for (const Used& other : writes) {
        if (write || refused(other)) wrong = &other;
      }
      for (const Used& other : reads) {
        if (write && refused(other)) wrong = &other;
      }
      if (wrong) {
        out_.add("{} writes argument {} over argument {}", name(), write ? u.slot : wrong->slot,
                 write ? wrong->slot : u.slot);
        return;
      }
      (write ? writes : reads).push_back(u);
    }
  }

  bool may_share(uint32_t kernel, size_t out, size_t in) const {
    if (kernel == kNone) return false;
    const Kernel& k = p_.kernels[kernel];
    const auto& pairs = facts_.in_place[kernel];
    const size_t slots = (k.args.size() - extra_arguments(k)) / k.parts;
    return out / slots == in / slots &&
           std::binary_search(
               pairs.begin(), pairs.end(),
               std::pair(static_cast<uint32_t>(out % slots), static_cast<uint32_t>(in % slots)));
  }

  /// The ring is ready before the first launch, whatever its first value is called.
  void name_ring(const Range& r, uint32_t buffer, uint32_t value) {
    if (p_.buffers[buffer].segment != Segment::ring || region_ != kNone) return;
    if (memory_.untouched(r.space)) memory_.put(r, value);
  }

  void node_reads(const Body& body, const Clock& clock, uint32_t n, const Access& a) {
    const Range r = range_of(p_, a.view);
    if (r.lo == r.hi) return;
    const uint32_t buffer = p_.views[a.view].buffer;
    name_ring(r, buffer, a.value);
    bool unordered = false;
    const auto visit = [&](Accesses& accesses) {
      const uint32_t w = unordered ? kNone : accesses.unordered_writer(clock, n, a.tag);
      if (w != kNone) {
        out_.add("nothing orders {} after {}, which writes {}", node_name(p_, body, n),
                 node_name(p_, body, w), buffer_name(p_, buffer));
        unordered = true;
      }
      accesses.read(n, body.nodes[n].lane, a.tag);
    };
    if (r.space != kConstants) memory_.accesses(r, step_, visit);
    if (in_mailbox(p_, a.view) || memory_.holds(r, a.value, a.tag)) return;
    const uint32_t is = memory_.other_than(r, a.value, a.tag);
    out_.add("{} reads {} for value {}, but it holds {}", node_name(p_, body, n),
             buffer_name(p_, buffer), a.value,
             is == kNone ? std::string("nothing yet") : fmt::format("value {}", is));
  }

  void node_writes(const Body& body, const Clock& clock, uint32_t n, const Access& a) {
    const Range r = range_of(p_, a.view);
    if (r.lo == r.hi) return;
    const uint32_t buffer = p_.views[a.view].buffer;
    bool unordered = false;
    memory_.accesses(r, step_, [&](Accesses& accesses) {
      const uint32_t w = unordered ? kNone : accesses.unordered_writer(clock, n, a.tag);
      if (w != kNone) {
        out_.add("nothing orders {} after {}, which writes {}", node_name(p_, body, n),
                 node_name(p_, body, w), buffer_name(p_, buffer));
        unordered = true;
      }
      const uint32_t reader = unordered ? kNone : accesses.unordered_reader(clock, n, a.tag);
      if (reader != kNone) {
        out_.add("nothing orders {}, which writes {}, after {}, which reads it",
                 node_name(p_, body, n), buffer_name(p_, buffer), node_name(p_, body, reader));
        unordered = true;
      }
      accesses.write(n, body.nodes[n].lane, a.tag);
    });
    memory_.put(r, a.value, a.tag);
  }

  const Facts& facts_;
  const Program& p_;
  Findings& out_;
  std::set<uint32_t>& written_;
  const uint32_t region_, side_;
  size_t step_ = 0;
  Memory memory_;
  std::vector<Range> writable_;  // of a side: sorted
  std::vector<Range> handles_;   // that the body at hand has set for nodes of its own
};

}  // namespace

void check_flow(const Program& p, Findings& out) {
  const Facts facts(p);
  std::set<uint32_t> written;
  for (uint32_t r = 0; r < p.regions.size(); ++r) {
    const Region& region = p.regions[r];
    if (region.kind == Region::Kind::predicate) {
      for (const Region::State& s : region.states) written.insert(p.views[s.view].buffer);
      continue;
    }
    for (uint32_t s = 0; s < region.sides && !out.full(); ++s) {
      Walk(facts, out, written, r, s).side();
    }
  }
  if (!out.full()) Walk(facts, out, written, kNone, 0).outermost();
}

}  // namespace braid::checking
