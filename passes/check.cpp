#include "passes/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

namespace braid {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
/// No target gives a block more shared memory (sm_90), and none has blocks of other shapes.
constexpr uint32_t kMostSharedBytes = 227 * 1024;
constexpr std::array<uint32_t, 3> kMostThreads{1024, 1024, 64};
constexpr std::array<uint32_t, 3> kMostBlocks{INT32_MAX, 65535, 65535};

/// Address spaces that cannot overlap: the arena, the constants, and every other buffer.
int64_t space_of(const Program& p, uint32_t buffer) {
  switch (p.buffers[buffer].segment) {
    case Segment::temp:
      return -1;
    case Segment::constant:
      return -2;
    default:
      return buffer;
  }
}

class Checker {
 public:
  explicit Checker(const Program& p) : p_(p) {}

  std::vector<std::string> run() {
    buffers();
    views();
    kernels();
    bindings();
    for (const Step& s : p_.script) {
      if (s.index >= p_.bodies.size())
        bad("the script launches body {}, which does not exist", s.index);
    }
    for (size_t b = 0; b < p_.bodies.size(); ++b) body_shape(b);
    if (!bad_.empty()) return bad_;  // what follows indexes freely
    start();
    for (const Step& s : p_.script) flow(p_.bodies[s.index]);
    finish();
    return bad_;
  }

 private:
  template <class... T>
  void bad(fmt::format_string<T...> text, T&&... args) {
    bad_.push_back(fmt::format(text, std::forward<T>(args)...));
  }

  std::string node_name(const Body& body, uint32_t n) const {
    const uint32_t k = body.nodes[n].kernel;
    return fmt::format("node {} ({})", n, k < p_.kernels.size() ? p_.kernels[k].symbol : "?");
  }
  std::string buffer_name(uint32_t b) const {
    return fmt::format("buffer {} '{}'", b, p_.buffers[b].name);
  }

  void buffers() {
    if (p_.arena_bytes < 0) bad("the arena has {} bytes", p_.arena_bytes);
    if (p_.scalar_bytes < 0) bad("the scalars have {} bytes", p_.scalar_bytes);
    for (uint32_t i = 0; i < p_.buffers.size(); ++i) {
      const Buffer& b = p_.buffers[i];
      if (!b.type.shape.is_static() || b.bytes != b.type.bytes()) {
        bad("{} has {} bytes, but its type is {}", buffer_name(i), b.bytes, to_string(b.type));
        continue;
      }
      const int64_t limit = b.segment == Segment::temp ? p_.arena_bytes
                            : b.segment == Segment::constant
                                ? static_cast<int64_t>(p_.constants.size())
                            : b.segment == Segment::scalar ? p_.scalar_bytes
                                                           : b.bytes;
      // Scalars move one element at a time, everything else in packs.
      const int64_t alignment = b.segment == Segment::scalar ? kScalarAlignment : 256;
      if (b.offset < 0 || b.offset % alignment != 0 || b.bytes > limit ||
          b.offset > limit - b.bytes) {
        bad("{} at offset {} with {} bytes does not lie aligned in its {} bytes of {}",
            buffer_name(i), b.offset, b.bytes, limit, name_of(b.segment));
      }
    }
  }

  void views() {
    for (uint32_t i = 0; i < p_.views.size(); ++i) {
      const View& v = p_.views[i];
      if (v.buffer >= p_.buffers.size()) {
        bad("view {} is of buffer {}, which does not exist", i, v.buffer);
        continue;
      }
      if (!v.type.shape.is_static()) {
        bad("view {} has a symbolic shape", i);
        continue;
      }
      const int64_t room = p_.buffers[v.buffer].bytes;
      if (v.offset < 0 || v.type.bytes() > room || v.offset > room - v.type.bytes()) {
        bad("view {} leaves {}", i, buffer_name(v.buffer));
      }
      if (v.strides != row_major_strides(v.type.shape.extents())) {
        bad("view {} of {} is not row-major", i, buffer_name(v.buffer));
      }
    }
  }

  /// The slots that a body implies: inputs and params in op order, then outputs.
  static std::vector<ArgSlot> slots_of(const ir::Graph& body) {
    std::vector<ArgSlot> slots;
    std::map<uint32_t, size_t> param_slot;  // by value of any version
    for (const ir::Op& op : body.ops()) {
      const TensorType& type = body.type(op.result);
      const std::string name(body.strings[op.name]);
      switch (op.kind) {
        case ir::OpKind::input:
          slots.push_back({name, Role::in, type});
          break;
        case ir::OpKind::param:
          param_slot[op.result.index] = slots.size();
          slots.push_back({name, Role::out, type});
          break;
        case ir::OpKind::read:
        case ir::OpKind::update: {
          const auto it = param_slot.find(op.operands[0].index);
          if (it != param_slot.end()) {
            slots[it->second].role = Role::inout;
            param_slot[op.result.index] = it->second;
          }
          break;
        }
        case ir::OpKind::assign: {
          const auto it = param_slot.find(op.operands[0].index);
          if (it != param_slot.end()) param_slot[op.result.index] = it->second;
          break;
        }
        default:
          break;
      }
    }
    for (const ir::Output& o : body.outputs)
      slots.push_back({o.name, Role::out, body.type(o.value)});
    return slots;
  }

  void kernels() {
    for (uint32_t i = 0; i < p_.kernels.size(); ++i) {
      const Kernel& k = p_.kernels[i];
      const auto& values = k.body.values();
      if (!std::all_of(values.begin(), values.end(),
                       [](const ir::Value& v) { return v.type.shape.is_static(); })) {
        bad("the body of kernel {} has symbolic shapes", k.symbol);
        continue;
      }
      const std::vector<ArgSlot> slots = slots_of(k.body);  // of one part
      if (k.parts == 0 || slots.size() * k.parts != k.args.size()) {
        bad("kernel {} has {} arguments, but its body needs {} in {} part{}", k.symbol,
            k.args.size(), slots.size() * k.parts, k.parts, k.parts == 1 ? "" : "s");
        continue;
      }
      for (size_t s = 0; s < k.args.size(); ++s) {
        const ArgSlot &is = k.args[s], &needed = slots[s % slots.size()];
        if (is.role != needed.role || is.type != needed.type || is.name != needed.name) {
          bad("argument {} of kernel {} is {} '{}' {}, but its body needs {} '{}' {}", s, k.symbol,
              name_of(is.role), is.name, to_string(is.type), name_of(needed.role), needed.name,
              to_string(needed.type));
        }
      }
      if (!p_.modules.empty() && k.module >= p_.modules.size()) {
        bad("kernel {} is in module {}, which does not exist", k.symbol, k.module);
      }
      launch_shape(k);
    }
  }

  void launch_shape(const Kernel& k) {
    const auto &g = k.launch.grid, &b = k.launch.block;
    bool legal = k.launch.shared_bytes <= kMostSharedBytes;
    for (size_t i = 0; i < 3; ++i) {
      legal = legal && g[i] > 0 && g[i] <= kMostBlocks[i] && b[i] > 0 && b[i] <= kMostThreads[i];
    }
    if (k.parts > 1 && k.launch.grid[1] != k.parts) {
      bad("kernel {} computes {} parts, but its grid has {} along y", k.symbol, k.parts,
          k.launch.grid[1]);
    }
    const int64_t most = std::min<int64_t>(p_.target.max_threads_per_block, kMostThreads[0]);
    if (!legal || int64_t{b[0]} * b[1] * b[2] > most) {
      bad("kernel {} cannot be launched: grid ({}, {}, {}), block ({}, {}, {}), {} bytes shared",
          k.symbol, g[0], g[1], g[2], b[0], b[1], b[2], k.launch.shared_bytes);
    }
  }

  void bindings() {
    const auto expect = [&](uint32_t buffer, Segment segment, const std::string& name) {
      if (buffer >= p_.buffers.size() || p_.buffers[buffer].segment != segment) {
        bad("{} '{}' is bound to buffer {}, which is not one", name_of(segment), name, buffer);
      }
    };
    for (const Binding& b : p_.inputs) expect(b.buffer, Segment::input, b.name);
    for (const Binding& b : p_.outputs) expect(b.buffer, Segment::output, b.name);
    for (const ParamBinding& b : p_.params) expect(b.buffer, Segment::param, b.name);
    for (const ScalarBinding& b : p_.scalars) expect(b.buffer, Segment::scalar, b.name);
  }

  void body_shape(size_t index) {
    const Body& body = p_.bodies[index];
    if (body.lanes > static_cast<uint32_t>(kMaxStreams)) {
      bad("graph {} has {} lanes, more than {}", index, body.lanes, kMaxStreams);
    }
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> places;
    for (uint32_t n = 0; n < body.nodes.size(); ++n) {
      const Node& node = body.nodes[n];
      if (node.kernel >= p_.kernels.size()) {
        bad("node {} launches kernel {}, which does not exist", n, node.kernel);
        continue;
      }
      const std::vector<ArgSlot>& slots = p_.kernels[node.kernel].args;
      if (node.args.size() != slots.size() || node.values.size() != slots.size() ||
          node.values_before.size() != slots.size()) {
        bad("{} has {} arguments for {} slots", node_name(body, n), node.args.size(), slots.size());
        continue;
      }
      for (size_t s = 0; s < slots.size(); ++s) {
        if (node.args[s] >= p_.views.size()) {
          bad("argument {} of {} is view {}, which does not exist", s, node_name(body, n),
              node.args[s]);
        } else if (p_.views[node.args[s]].type != slots[s].type) {
          bad("argument {} of {} is {}, but the kernel takes {}", s, node_name(body, n),
              to_string(p_.views[node.args[s]].type), to_string(slots[s].type));
        }
      }
      if (node.lane >= body.lanes) {
        bad("{} is on lane {} of {}", node_name(body, n), node.lane, body.lanes);
      }
      if (!places.emplace(std::pair(node.lane, node.position), n).second) {
        bad("{} shares its place in lane {} with node {}", node_name(body, n), node.lane,
            places[{node.lane, node.position}]);
      }
    }
    const Edge* last = nullptr;
    for (const Edge& e : body.edges) {
      if (last && std::pair(last->to, last->from) >= std::pair(e.to, e.from)) {
        bad("the edge {} -> {} stands after {} -> {}: edges are sorted and each is there once",
            e.from, e.to, last->from, last->to);
      }
      last = &e;
      if (e.from >= body.nodes.size() || e.to >= body.nodes.size()) {
        bad("the edge {} -> {} has no such nodes", e.from, e.to);
      } else if (e.from >= e.to) {
        bad("the edge {} -> {} goes against the launch order", e.from, e.to);
      } else {
        if (body.nodes[e.from].level > body.nodes[e.to].level) {
          bad("the edge {} -> {} goes from run {} back to run {}", e.from, e.to,
              body.nodes[e.from].level, body.nodes[e.to].level);
        }
        if (e.kind == EdgeKind::programmatic && body.nodes[e.to].kernel < p_.kernels.size() &&
            !p_.kernels[body.nodes[e.to].kernel].waits) {
          bad("the edge {} -> {} is programmatic, but the kernel does not wait", e.from, e.to);
        }
      }
    }
  }

  /// For every node and lane: how many of the lane's first nodes happen before it. Exact if lanes
  /// are chains, which is checked on the way.
  std::vector<std::vector<uint32_t>> clocks(const Body& body) {
    std::vector<std::vector<uint32_t>> sources(body.nodes.size());
    for (const Edge& e : body.edges) sources[e.to].push_back(e.from);
    std::vector<std::vector<uint32_t>> clock(body.nodes.size(),
                                             std::vector<uint32_t>(body.lanes, 0));
    std::vector<uint32_t> length(body.lanes, 0);
    for (uint32_t n = 0; n < body.nodes.size(); ++n) {
      const Node& node = body.nodes[n];
      for (uint32_t from : sources[n]) {
        for (uint32_t l = 0; l < body.lanes; ++l) {
          clock[n][l] = std::max(clock[n][l], clock[from][l]);
        }
        uint32_t& own = clock[n][body.nodes[from].lane];
        own = std::max(own, body.nodes[from].position + 1);
      }
      uint32_t& next = length[node.lane];
      if (node.position != next) {
        bad("{} is at position {} of lane {}, which holds {} nodes before it", node_name(body, n),
            node.position, node.lane, next);
      }
      if (clock[n][node.lane] < next) {
        bad("lane {} is not a chain: nothing orders {} after the node before it", node.lane,
            node_name(body, n));
      }
      ++next;
    }
    return clock;
  }

  /// What is known of a stretch of bytes. Accesses are of the current body.
  struct Stretch {
    int64_t end = 0;
    uint32_t value = kNone;                  // the source value that the bytes belong to ...
    int64_t origin = 0;                      // ... and the address where that value begins
    uint32_t writer = kNone;                 // node, or kNone: written before the body started
    std::map<uint32_t, uint32_t> readers{};  // lane -> its last reader since the write
  };
  using Space = std::map<int64_t, Stretch>;  // by start; disjoint

  /// Splits so that [lo, hi) is covered by whole stretches; creates unwritten ones in the gaps.
  static void cover(Space& space, int64_t lo, int64_t hi) {
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

  void put(uint32_t buffer, uint32_t value) {
    const Buffer& b = p_.buffers[buffer];
    if (b.bytes == 0) return;
    Space& space = spaces_[space_of(p_, buffer)];
    cover(space, b.offset, b.offset + b.bytes);
    for (auto it = space.find(b.offset); it != space.end() && it->first < b.offset + b.bytes;
         ++it) {
      it->second.value = value;
      it->second.origin = b.offset;
    }
  }

  /// Before the first launch inputs, params and constants hold their values, all else nothing.
  void start() {
    for (const Binding& b : p_.inputs) put(b.buffer, b.value);
    for (const ParamBinding& b : p_.params) put(b.buffer, b.first_value);
    for (const ScalarBinding& b : p_.scalars) put(b.buffer, b.value);
    for (const View& v : p_.views) {
      if (p_.buffers[v.buffer].segment == Segment::constant) put(v.buffer, v.value);
    }
  }

  void expect(uint32_t buffer, uint32_t value, const std::string& what) {
    const Buffer& b = p_.buffers[buffer];
    if (b.bytes == 0) return;
    const Space& space = spaces_[space_of(p_, buffer)];
    int64_t at = b.offset;
    for (auto it = space.find(at); it != space.end() && at < b.offset + b.bytes; ++it) {
      if (it->first != at || it->second.value != value) break;
      at = it->second.end;
    }
    if (value == kNone || at < b.offset + b.bytes) {
      bad("at the end {} does not hold value {}", what, value);
    }
  }

  void finish() {
    for (const Binding& b : p_.outputs)
      expect(b.buffer, b.value, fmt::format("output '{}'", b.name));
    for (const ParamBinding& b : p_.params) {
      expect(b.buffer, b.last_value, fmt::format("param '{}'", b.name));
      if (b.written != written_.contains(b.buffer)) {
        bad("param '{}' is said {}to be written, but it is{}", b.name, b.written ? "" : "not ",
            b.written ? " not" : "");
      }
    }
  }

  struct Access {
    uint32_t view;
    bool write;
    uint32_t value;
  };

  void flow(const Body& body) {
    const std::vector<std::vector<uint32_t>> clock = clocks(body);
    const auto ordered = [&](uint32_t before, uint32_t after) {
      return before == after || clock[after][body.nodes[before].lane] > body.nodes[before].position;
    };
    for (auto& [id, space] : spaces_) {  // what earlier bodies did is over
      for (auto& [at, s] : space) {
        s.writer = kNone;
        s.readers.clear();
      }
    }
    for (uint32_t n = 0; n < body.nodes.size(); ++n) {
      const Node& node = body.nodes[n];
      const std::vector<ArgSlot>& slots = p_.kernels[node.kernel].args;
      std::vector<Access> reads, writes;
      for (size_t s = 0; s < slots.size(); ++s) {
        const Role role = slots[s].role;
        if (role == Role::in) reads.push_back({node.args[s], false, node.values[s]});
        if (role == Role::inout) reads.push_back({node.args[s], false, node.values_before[s]});
        if (role != Role::in) writes.push_back({node.args[s], true, node.values[s]});
        if (role != Role::inout && p_.views[node.args[s]].value != node.values[s]) {
          bad("argument {} of {} is a view of value {}, but the node needs value {}", s,
              node_name(body, n), p_.views[node.args[s]].value, node.values[s]);
        }
        if (role == Role::in) continue;
        const uint32_t written = p_.views[node.args[s]].buffer;
        const Segment segment = p_.buffers[written].segment;
        if (segment == Segment::input || segment == Segment::constant ||
            segment == Segment::scalar) {
          bad("{} writes the {} '{}'", node_name(body, n), name_of(segment),
              p_.buffers[written].name);
        }
        written_.insert(written);
      }
      within(body, n, slots);
      for (const Access& a : reads) access(body, n, a, ordered);
      for (const Access& a : writes) access(body, n, a, ordered);
    }
  }

  /// Arguments of one node may not overlap if one is written: threads run in no order.
  void within(const Body& body, uint32_t n, const std::vector<ArgSlot>& slots) {
    const Node& node = body.nodes[n];
    for (size_t a = 0; a < slots.size(); ++a) {
      for (size_t b = 0; b < slots.size(); ++b) {
        if (a == b || slots[a].role == Role::in || (b < a && slots[b].role != Role::in)) continue;
        const auto [space_a, lo_a, hi_a] = range(node.args[a]);
        const auto [space_b, lo_b, hi_b] = range(node.args[b]);
        if (space_a == space_b && lo_a < hi_b && lo_b < hi_a) {
          bad("{} writes argument {} over argument {}", node_name(body, n), a, b);
        }
      }
    }
  }

  std::tuple<int64_t, int64_t, int64_t> range(uint32_t view) const {
    const View& v = p_.views[view];
    const int64_t lo = p_.buffers[v.buffer].offset + v.offset;
    return {space_of(p_, v.buffer), lo, lo + v.type.bytes()};
  }

  template <class Ordered>
  void access(const Body& body, uint32_t n, const Access& a, const Ordered& ordered) {
    const auto [id, lo, hi] = range(a.view);
    if (lo == hi) return;
    Space& space = spaces_[id];
    cover(space, lo, hi);
    const std::string where = buffer_name(p_.views[a.view].buffer);
    bool unordered = false, wrong = false;
    const auto first = space.find(lo);
    for (auto it = first; it != space.end() && it->first < hi; ++it) {
      Stretch& s = it->second;
      if (s.writer != kNone && !ordered(s.writer, n) && !unordered) {
        bad("nothing orders {} after {}, which writes {}", node_name(body, n),
            node_name(body, s.writer), where);
        unordered = true;
      }
      if (!a.write) {
        if (!wrong && (s.value == kNone || s.value != a.value || s.origin != lo)) {
          bad("{} reads {} for value {}, but it holds {}", node_name(body, n), where, a.value,
              s.value == kNone ? std::string("nothing yet") : fmt::format("value {}", s.value));
          wrong = true;
        }
        s.readers[body.nodes[n].lane] = n;
        continue;
      }
      for (const auto& [lane, reader] : s.readers) {
        if (!ordered(reader, n) && !unordered) {
          bad("nothing orders {}, which writes {}, after {}, which reads it", node_name(body, n),
              where, node_name(body, reader));
          unordered = true;
        }
      }
    }
    if (a.write) {
      space.erase(first, space.lower_bound(hi));
      space.emplace(lo, Stretch{.end = hi, .value = a.value, .origin = lo, .writer = n});
    }
  }

  const Program& p_;
  std::vector<std::string> bad_;
  std::map<int64_t, Space> spaces_;
  std::set<uint32_t> written_;  // buffers
};

}  // namespace

std::vector<std::string> check(const Program& p) { return Checker(p).run(); }

}  // namespace braid
