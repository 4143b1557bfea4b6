// The checker's last part: order and values over the script.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "passes/check_parts.hpp"

namespace braid::checking {
namespace {

/// For every node and lane of a body: how many of the lane's first nodes have ended before the
/// node's first access. Exact if lanes are chains, which is checked on the way.
class Clock {
 public:
  Clock(const Program& p, const Body& body, Findings& out)
      : body_(body), counts_(body.nodes.size() * body.lanes, 0) {
    std::vector<uint32_t> length(body.lanes, 0);
    size_t edge = 0;
    for (uint32_t n = 0; n < body.nodes.size(); ++n) {
      const Node& node = body.nodes[n];
      const bool waits = p.kernels[node.kernel].waits;
      for (; edge < body.edges.size() && body.edges[edge].to == n; ++edge) {
        const Edge& e = body.edges[edge];
        if (e.kind == EdgeKind::full || waits) follow(e.from, n);
      }
      if (body.stream && n > 0) follow(n - 1, n);
      uint32_t& next = length[node.lane];
      if (node.position != next) {
        out.add("{} is at position {} of lane {}, which holds {} nodes before it",
                node_name(p, body, n), node.position, node.lane, next);
      }
      if (before(n, node.lane) < next) {
        out.add("lane {} is not a chain: nothing orders {} after the node before it", node.lane,
                node_name(p, body, n));
      }
      ++next;
    }
  }

  bool ordered(uint32_t first, uint32_t then) const {
    const Node& node = body_.nodes[first];
    return first == then || before(then, node.lane) > node.position;
  }

 private:
  uint32_t before(uint32_t node, uint32_t lane) const {
    return counts_[size_t{node} * body_.lanes + lane];
  }
  void follow(uint32_t from, uint32_t to) {
    uint32_t* const t = &counts_[size_t{to} * body_.lanes];
    for (uint32_t l = 0; l < body_.lanes; ++l) t[l] = std::max(t[l], before(from, l));
    uint32_t& own = t[body_.nodes[from].lane];
    own = std::max(own, body_.nodes[from].position + 1);
  }

  const Body& body_;
  std::vector<uint32_t> counts_;
};

/// What is known of a stretch of bytes.
struct Stretch {
  int64_t end = 0;
  uint32_t value = kNone;                  // the source value that the bytes belong to ...
  int64_t origin = 0;                      // ... and the address where that value begins
  size_t step = SIZE_MAX;                  // of the script, in which the accesses below happened
  uint32_t writer = kNone;                 // node
  std::map<uint32_t, uint32_t> readers{};  // lane -> its last reader since the write
};
using Space = std::map<int64_t, Stretch>;  // by start; disjoint

/// Splits so that [lo, hi) is covered by whole stretches; creates unwritten ones in the gaps.
void cover(Space& space, int64_t lo, int64_t hi) {
  const auto split = [&](int64_t at) {
    auto it = space.upper_bound(at);
    if (it == space.begin()) return;
    --it;
    if (it->first < at && at < it->second.end) {
      Stretch tail = it->second;
      it->second.end = at;
      space.emplace(at, std::move(tail));
    }
  };
  split(lo);
  split(hi);
  int64_t at = lo;
  for (auto it = space.lower_bound(lo); at < hi; ++it) {
    const int64_t next = it == space.end() || it->first >= hi ? hi : it->first;
    if (next > at) it = space.emplace(at, Stretch{.end = next}).first;
    at = it->second.end;
  }
}

class Flow {
 public:
  Flow(const Program& p, Findings& out) : p_(p), out_(out) {
    for (const Kernel& k : p.kernels) {
      std::vector<std::pair<uint32_t, uint32_t>> pairs;
      for (const InPlace& i : k.in_place) pairs.emplace_back(i.out, i.in);
      std::sort(pairs.begin(), pairs.end());
      in_place_.push_back(std::move(pairs));
    }
  }

  void run() {
    start();
    for (; step_ < p_.script.size() && !out_.full(); ++step_) {
      const Step& s = p_.script[step_];
      if (s.kind == Step::Kind::launch) launch(p_.bodies[s.index]);
      if (s.kind == Step::Kind::read) read(s.index);
      if (s.kind == Step::Kind::write) write(s.index);
    }
    if (!out_.full()) finish();
  }

 private:
  struct Access {
    uint32_t view;
    uint32_t value;
  };

  /// Before the first launch inputs, params and constants hold their values, all else nothing.
  void start() {
    for (const Binding& b : p_.inputs) hold(b.buffer, b.value);
    for (const ParamBinding& b : p_.params) hold(b.buffer, b.first_value);
    for (const ScalarBinding& b : p_.scalars) hold(b.buffer, b.value);
    for (const View& v : p_.views) {
      if (p_.buffers[v.buffer].segment == Segment::constant) hold(v.buffer, v.value);
    }
  }
  void hold(uint32_t buffer, uint32_t value) {
    const Buffer& b = p_.buffers[buffer];
    const int64_t space = b.segment == Segment::constant ? -2 : int64_t{buffer};
    put({space, b.offset, b.offset + b.bytes}, value, kNone);
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
    if (holds({buffer, b.offset, b.offset + b.bytes}, value)) return;
    out_.add("at the end {} does not hold value {}", what, value);
  }

  void launch(const Body& body) {
    const Clock clock(p_, body, out_);
    for (uint32_t n = 0; n < body.nodes.size() && !out_.full(); ++n) {
      const Node& node = body.nodes[n];
      const std::vector<ArgSlot>& slots = p_.kernels[node.kernel].args;
      std::vector<Access> reads, writes;
      for (size_t s = 0; s < slots.size(); ++s) {
        const Role role = slots[s].role;
        if (role == Role::in) reads.push_back({node.args[s], node.values[s]});
        if (role == Role::inout) reads.push_back({node.args[s], node.values_before[s]});
        if (role != Role::inout && p_.views[node.args[s]].value != node.values[s]) {
          out_.add("argument {} of {} is a view of value {}, but the node needs value {}", s,
                   node_name(p_, body, n), p_.views[node.args[s]].value, node.values[s]);
        }
        if (role == Role::in) continue;
        writes.push_back({node.args[s], node.values[s]});
        may_write(node.args[s], node_name(p_, body, n));
      }
      apart(body, n);
      for (const Access& a : reads) node_reads(body, clock, n, a);
      for (const Access& a : writes) node_writes(body, clock, n, a);
    }
  }

  void read(uint32_t c) {
    const Call& call = p_.calls[c];
    for (size_t i = 0; i < call.args.size() && !out_.full(); ++i) {
      if (p_.views[call.args[i]].value != call.values[i]) {
        out_.add("argument {} of {} is a view of value {}, but the call needs value {}", i,
                 call_name(p_, c), p_.views[call.args[i]].value, call.values[i]);
      }
      if (holds(range_of(p_, call.args[i]), call.values[i])) continue;
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
      put(ranges.back(), call.result_values[i], kNone);
    }
    for (size_t i = 0; i < ranges.size() && !out_.full(); ++i) {
      if (holds(ranges[i], call.result_values[i])) continue;
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
  }

  /// Arguments of one node may not overlap if one is written, since threads run in no order, but
  /// for what the kernel does in place on the very same bytes.
  void apart(const Body& body, uint32_t n) {
    const Node& node = body.nodes[n];
    const std::vector<ArgSlot>& slots = p_.kernels[node.kernel].args;
    struct Used {
      Range range;
      size_t slot;
    };
    std::vector<Used> used, reads, writes;  // the latter two: those that may reach further
    for (size_t s = 0; s < slots.size(); ++s) {
      const Range r = range_of(p_, node.args[s]);
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
        return u.range != other.range || !may_share(node.kernel, out, in);
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
        out_.add("{} writes argument {} over argument {}", node_name(p_, body, n),
                 write ? u.slot : wrong->slot, write ? wrong->slot : u.slot);
        return;
      }
      (write ? writes : reads).push_back(u);
    }
  }

  bool may_share(uint32_t kernel, size_t out, size_t in) const {
    const auto& pairs = in_place_[kernel];
    const size_t slots = p_.kernels[kernel].args.size() / p_.kernels[kernel].parts;
    return out / slots == in / slots &&
           std::binary_search(
               pairs.begin(), pairs.end(),
               std::pair(static_cast<uint32_t>(out % slots), static_cast<uint32_t>(in % slots)));
  }

  /// Whether the bytes hold all of a value and nothing else.
  bool holds(const Range& r, uint32_t value) {
    if (r.lo == r.hi) return true;
    const Space& space = spaces_[r.space];
    int64_t at = r.lo;
    auto it = space.upper_bound(r.lo);
    if (it != space.begin()) --it;
    for (; it != space.end() && at < r.hi; ++it) {
      const Stretch& s = it->second;
      if (it->first > at || s.end <= at || s.value != value || s.origin != r.lo) return false;
      at = s.end;
    }
    return value != kNone && at >= r.hi;
  }

  void put(const Range& r, uint32_t value, uint32_t writer) {
    if (r.lo == r.hi) return;
    Space& space = spaces_[r.space];
    cover(space, r.lo, r.hi);
    space.erase(space.find(r.lo), space.lower_bound(r.hi));
    space.emplace(
        r.lo,
        Stretch{.end = r.hi, .value = value, .origin = r.lo, .step = step_, .writer = writer});
  }

  /// What earlier steps did is over.
  void refresh(Stretch& s) const {
    if (s.step == step_) return;
    s.step = step_;
    s.writer = kNone;
    s.readers.clear();
  }

  void node_reads(const Body& body, const Clock& clock, uint32_t n, const Access& a) {
    const Range r = range_of(p_, a.view);
    if (r.lo == r.hi) return;
    Space& space = spaces_[r.space];
    cover(space, r.lo, r.hi);
    bool unordered = false, wrong = false;
    for (auto it = space.find(r.lo); it != space.end() && it->first < r.hi; ++it) {
      Stretch& s = it->second;
      refresh(s);
      if (s.writer != kNone && !clock.ordered(s.writer, n) && !unordered) {
        out_.add("nothing orders {} after {}, which writes {}", node_name(p_, body, n),
                 node_name(p_, body, s.writer), buffer_name(p_, p_.views[a.view].buffer));
        unordered = true;
      }
      if (!wrong && (s.value == kNone || s.value != a.value || s.origin != r.lo)) {
        out_.add("{} reads {} for value {}, but it holds {}", node_name(p_, body, n),
                 buffer_name(p_, p_.views[a.view].buffer), a.value,
                 s.value == kNone ? std::string("nothing yet") : fmt::format("value {}", s.value));
        wrong = true;
      }
      s.readers[body.nodes[n].lane] = n;
    }
  }

  void node_writes(const Body& body, const Clock& clock, uint32_t n, const Access& a) {
    const Range r = range_of(p_, a.view);
    if (r.lo == r.hi) return;
    Space& space = spaces_[r.space];
    cover(space, r.lo, r.hi);
    bool unordered = false;
    for (auto it = space.find(r.lo); it != space.end() && it->first < r.hi && !unordered; ++it) {
      Stretch& s = it->second;
      refresh(s);
      if (s.writer != kNone && !clock.ordered(s.writer, n)) {
        out_.add("nothing orders {} after {}, which writes {}", node_name(p_, body, n),
                 node_name(p_, body, s.writer), buffer_name(p_, p_.views[a.view].buffer));
        unordered = true;
      }
      for (const auto& [lane, reader] : s.readers) {
        if (clock.ordered(reader, n) || unordered) continue;
        out_.add("nothing orders {}, which writes {}, after {}, which reads it",
                 node_name(p_, body, n), buffer_name(p_, p_.views[a.view].buffer),
                 node_name(p_, body, reader));
        unordered = true;
      }
    }
    put(r, a.value, n);
  }

  const Program& p_;
  Findings& out_;
  size_t step_ = 0;
  std::map<int64_t, Space> spaces_;
  std::set<uint32_t> written_;                                          // buffers
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> in_place_{};  // by kernel; sorted
};

}  // namespace

void check_flow(const Program& p, Findings& out) { Flow(p, out).run(); }

}  // namespace braid::checking
