// The checker's part on regions: how they, their bodies, nodes and handles belong together, what
// they say of values by name alone, and how many nodes may run at once.
#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "passes/check_parts.hpp"

namespace braid::checking {
namespace {

/// As deep as bodies of graphs may nest.
constexpr uint32_t kMostNesting = 64;
constexpr uint32_t kMostSides = 1u << 20;

bool is_scalar(const TensorType& t, DType d) { return t.dtype == d && t.shape.rank() == 0; }

class Regions {
 public:
  Regions(const Program& p, Findings& out) : p_(p), out_(out), nodes_(p.regions.size()) {}

  void run() {
    const size_t before = out_.count();
    for (uint32_t r = 0; r < p_.regions.size(); ++r) region(r);
    if (out_.count() != before) return;  // what follows indexes freely
    buffers();
    for (uint32_t b = 0; b < p_.bodies.size(); ++b) body(b);
    for (const Call& c : p_.calls) {
      for (const std::vector<uint32_t>* views : {&c.args, &c.results}) {
        for (uint32_t v : *views) plain_memory(v, c.function);
      }
    }
    for (uint32_t r = 0; r < p_.regions.size(); ++r) {
      if (p_.regions[r].kind == Region::Kind::node && nodes_[r] != 1) {
        out_.add("{} has {} conditional nodes", region_name(p_, r), nodes_[r]);
      }
    }
    names();
    if (out_.count() == before) widths();
  }

 private:
  void region(uint32_t index) {
    const Region& r = p_.regions[index];
    const std::string name = region_name(p_, index);
    around(r, index, name);
    if (r.flag >= p_.views.size()) {
      out_.add("the flag of {} is view {}, which does not exist", name, r.flag);
      return;
    }
    sides(r, index, name);
    const size_t n = r.slots.size();
    if (r.args.size() != n || r.values.size() != n || r.values_before.size() != n) {
      out_.add("{} has {} arguments for {} slots", name, r.args.size(), n);
      return;
    }
    for (size_t s = 0; s < n; ++s) {
      if (r.args[s] >= p_.views.size()) {
        out_.add("argument {} of {} is view {}, which does not exist", s, name, r.args[s]);
        return;
      }
      if (p_.views[r.args[s]].type != r.slots[s].type) {
        out_.add("argument {} of {} is {}, but its slot is {}", s, name,
                 to_string(p_.views[r.args[s]].type), to_string(r.slots[s].type));
      }
    }
    for (size_t k = 0; k < r.states.size(); ++k) {
      if (!state(r, k, name)) return;
    }
    if (r.kind == Region::Kind::predicate) {
      if (n > 0 || r.slab != kNone) out_.add("{} is predicated and has arguments", name);
      return;
    }
    slots(r, name);
    flag(r, name);
  }

  void around(const Region& r, uint32_t index, const std::string& name) {
    depth_.push_back(1);
    if (r.region == kNone) {
      if (r.branch != 0) out_.add("{} is on side {} of no region", name, r.branch);
      return;
    }
    if (r.region >= index) {
      out_.add("{} lies in region {}, which does not stand before it", name, r.region);
      return;
    }
    depth_.back() = depth_[r.region] + 1;
    if (depth_.back() > kMostNesting) out_.add("{} lies in {} others", name, depth_[r.region]);
    const Region& outer = p_.regions[r.region];
    if (outer.kind == Region::Kind::predicate) {
      out_.add("{} lies in a predicated one, {}", name, region_name(p_, r.region));
    }
    if (r.branch >= outer.sides) {
      out_.add("{} lies on side {} of {}, which has {}", name, r.branch, region_name(p_, r.region),
               outer.sides);
    }
  }

  void sides(const Region& r, uint32_t index, const std::string& name) {
    const View& asks = p_.views[r.flag];
    const bool two = is_scalar(asks.type, DType::b1);
    if (!two && (r.loop || !is_scalar(asks.type, DType::i32))) {
      out_.add("the flag of {} is {}", name, to_string(asks.type));
    }
    if (r.sides == 0 || r.sides > kMostSides || (r.loop ? r.sides != 1 : two && r.sides != 2)) {
      out_.add("{} has {} sides", name, r.sides);
    }
    if (r.unrolled == 0 || (!r.loop && r.unrolled != 1)) {
      out_.add("{} is unrolled {} times", name, r.unrolled);
    }
    if (r.loop && r.kind == Region::Kind::predicate) out_.add("{} is a predicated loop", name);
    const Segment segment = p_.buffers[asks.buffer].segment;
    if ((segment == Segment::handle) != (r.kind == Region::Kind::node) ||
        segment == Segment::ring) {
      out_.add("the flag of {} is the {} '{}'", name, name_of(segment),
               p_.buffers[asks.buffer].name);
    }
    const bool node = r.kind == Region::Kind::node, host = r.kind == Region::Kind::host;
    if (r.bodies.size() != (node ? r.sides : 0) || r.scripts.size() != (host ? r.sides : 0)) {
      out_.add("{} has {} bodies and {} scripts for {} sides", name, r.bodies.size(),
               r.scripts.size(), r.sides);
      return;
    }
    for (uint32_t s = 0; s < r.bodies.size(); ++s) {
      const uint32_t b = r.bodies[s];
      if (b >= p_.bodies.size()) {
        out_.add("side {} of {} is body {}, which does not exist", s, name, b);
      } else if (p_.bodies[b].region != index || p_.bodies[b].branch != s) {
        out_.add("side {} of {} is body {}, which belongs elsewhere", s, name, b);
      } else if (p_.bodies[b].stream) {
        out_.add("side {} of {} is body {}, which is no graph", s, name, b);
      }
    }
  }

  /// Returns whether more can be said of the region.
  bool state(const Region& r, size_t k, const std::string& name) {
    const Region::State& s = r.states[k];
    if (s.view >= p_.views.size()) {
      out_.add("state {} of {} is view {}, which does not exist", k, name, s.view);
      return false;
    }
    if (s.entry.size() != r.sides || s.exit.size() != r.sides) {
      out_.add("state {} of {} has {} entries and {} exits for {} sides", k, name, s.entry.size(),
               s.exit.size(), r.sides);
      return false;
    }
    for (size_t side = 0; side < s.entry.size(); ++side) {
      const bool fits =
          r.loop ? (s.entry[side] == kNone) == (s.before == kNone) : s.entry[side] == s.before;
      if (!fits) {
        out_.add("side {} of {} begins with value {} in {}, but there is value {}", side, name,
                 s.entry[side], buffer_name(p_, p_.views[s.view].buffer), s.before);
      }
    }
    if (p_.views[s.view].value != s.after) {
      out_.add("state {} of {} is a view of value {}, but the region leaves value {}", k, name,
               p_.views[s.view].value, s.after);
    }
    return true;
  }

  /// What is written is a state or the slab, and each of them is there once.
  void slots(const Region& r, const std::string& name) {
    std::map<uint32_t, const Region::State*> states;  // by view
    for (const Region::State& s : r.states) {
      if (!states.emplace(s.view, &s).second) {
        out_.add("{} has two states in view {}", name, s.view);
      }
    }
    bool slab = r.slab == kNone;
    for (size_t s = 0; s < r.slots.size(); ++s) {
      const View& view = p_.views[r.args[s]];
      const Role role = r.slots[s].role;
      if (view.buffer == r.slab) {
        const Buffer& b = p_.buffers[r.slab];
        if (slab || role != Role::out || b.segment != Segment::temp || view.offset != 0 ||
            view.type.bytes() != b.bytes || b.region != r.region) {
          out_.add("{} cannot have its temporaries in {}", name, buffer_name(p_, r.slab));
        }
        slab = true;
      } else if (role != Role::in && !in_mailbox(p_, r.args[s])) {
        const auto it = states.find(r.args[s]);
        const bool known = it != states.end();
        const bool fits = known && it->second->after == r.values[s] &&
                          it->second->before == r.values_before[s] &&
                          (it->second->before == kNone) == (role == Role::out);
        if (!fits) {
          out_.add("{} writes argument {}, of which its states say something else", name, s);
        }
        if (known) states.erase(it);
      }
      const Segment segment = p_.buffers[view.buffer].segment;
      if (segment == Segment::handle && view.buffer != p_.views[r.flag].buffer) {
        out_.add("{} reaches for the handle {} of another region", name,
                 buffer_name(p_, view.buffer));
      }
    }
    if (!slab) out_.add("{} does not say that it uses {}", name, slab_name(r));
    for (const auto& [view, state] : states) {
      out_.add("{} does not say that it writes {}", name, buffer_name(p_, p_.views[view].buffer));
    }
  }
  std::string slab_name(const Region& r) const {
    return r.slab < p_.buffers.size() ? buffer_name(p_, r.slab) : fmt::format("buffer {}", r.slab);
  }

  /// What decides is read by the region: a branch takes it as it is, a loop makes it anew.
  void flag(const Region& r, const std::string& name) {
    const Range range = range_of(p_, r.flag);
    const uint32_t value = p_.views[r.flag].value;
    bool found = false;
    for (size_t s = 0; s < r.slots.size() && !r.loop; ++s) {
      found = found || (r.slots[s].role == Role::in && range_of(p_, r.args[s]) == range &&
                        r.values[s] == value);
    }
    for (const Region::State& s : r.states) {
      if (!r.loop || range_of(p_, s.view) != range || s.before != value) continue;
      found = value != kNone && s.exit[0] != kNone;
      if (s.exit[0] == s.entry[0]) out_.add("the body of {} leaves its flag as it is", name);
    }
    if (!found) {
      out_.add("{} does not say that it {} its flag, {}", name, r.loop ? "makes" : "reads",
               buffer_name(p_, p_.views[r.flag].buffer));
    }
  }

  void buffers() {
    std::map<uint32_t, uint32_t> owner;  // of a handle
    std::set<uint32_t> slabs;
    for (uint32_t r = 0; r < p_.regions.size(); ++r) {
      const Region& region = p_.regions[r];
      if (region.slab != kNone && !slabs.insert(region.slab).second) {
        out_.add("two regions have their temporaries in {}", buffer_name(p_, region.slab));
      }
      if (region.kind != Region::Kind::node) continue;
      const uint32_t handle = p_.views[region.flag].buffer;
      const auto [at, added] = owner.emplace(handle, r);
      if (!added) {
        out_.add("{} and {} have one handle, {}", region_name(p_, at->second), region_name(p_, r),
                 buffer_name(p_, handle));
      }
    }
    bool ring = false;
    for (uint32_t b = 0; b < p_.buffers.size(); ++b) {
      const Buffer& buffer = p_.buffers[b];
      if (buffer.region != kNone &&
          (buffer.region >= p_.regions.size() ||
           (buffer.segment != Segment::temp && buffer.segment != Segment::handle))) {
        out_.add("{}, which is {} {}, cannot belong to region {}", buffer_name(p_, b),
                 buffer.segment == Segment::input || buffer.segment == Segment::output ? "an" : "a",
                 name_of(buffer.segment), buffer.region);
      }
      if (buffer.segment == Segment::ring) {
        if (ring || buffer.type != ir::kRingType) {
          out_.add("{} cannot be the ring of messages", buffer_name(p_, b));
        }
        ring = true;
      }
    }
  }

  void body(uint32_t index) {
    const Body& b = p_.bodies[index];
    if (b.region == kNone ? b.branch != 0 : b.region >= p_.regions.size()) {
      out_.add("body {} is side {} of region {}, which does not exist", index, b.branch, b.region);
      return;
    }
    if (b.region != kNone) {
      const Region& r = p_.regions[b.region];
      const bool one =
          r.kind == Region::Kind::node && b.branch < r.sides && r.bodies[b.branch] == index;
      if (!one && (r.kind != Region::Kind::host || b.branch >= r.sides)) {
        out_.add("body {} is not side {} of {}", index, b.branch, region_name(p_, b.region));
      }
    }
    for (uint32_t n = 0; n < b.nodes.size(); ++n) {
      if (b.nodes[n].kernel == kNoKernel) {
        conditional(b, index, n);
      } else {
        kernel(b, index, n);
      }
    }
  }

  void conditional(const Body& b, uint32_t body, uint32_t n) {
    const Node& node = b.nodes[n];
    const Region& r = p_.regions[node.region];
    const std::string name = node_name(p_, b, n);
    if (r.kind != Region::Kind::node) {
      out_.add("{} is conditional, but {} has no node", name, region_name(p_, node.region));
      return;
    }
    ++nodes_[node.region];
    if (r.region != b.region || r.branch != b.branch) {
      out_.add("{} stands in body {}, but {} elsewhere", name, body, region_name(p_, node.region));
    }
    if (b.stream) out_.add("{} is conditional, but body {} is no graph", name, body);
    if (node.args != r.args || node.values != r.values || node.values_before != r.values_before) {
      out_.add("{} has other arguments than its region", name);
    }
    for (uint32_t inner : r.bodies) {
      if (inner <= body) out_.add("body {} of {} stands before the node", inner, name);
    }
  }

  void kernel(const Body& b, uint32_t body, uint32_t n) {
    const Node& node = b.nodes[n];
    const Kernel& k = p_.kernels[node.kernel];
    const std::string name = node_name(p_, b, n);
    if (node.region != kNone || k.guard) guarded(b, body, n);
    const std::vector<Segment>& sorts = sorts_of(node.kernel);
    for (size_t s = 0; s < node.args.size(); ++s) {
      const View& v = p_.views[node.args[s]];
      const Buffer& buffer = p_.buffers[v.buffer];
      const Segment needed = s < sorts.size() * k.parts ? sorts[s % sorts.size()]
                             : k.exchanges              ? Segment::mailbox
                                                        : Segment::temp;
      const bool special = buffer.segment == Segment::handle || buffer.segment == Segment::ring ||
                           buffer.segment == Segment::mailbox;
      if (special ? buffer.segment != needed : needed != Segment::temp) {
        out_.add("argument {} of {} is {}, a {}, but the kernel {}", s, name,
                 buffer_name(p_, v.buffer), name_of(buffer.segment),
                 needed == Segment::handle    ? "sets a handle there"
                 : needed == Segment::ring    ? "takes the ring there"
                 : needed == Segment::mailbox ? "takes the mailbox there"
                                              : "takes memory there");
      }
      in_region(buffer, v.buffer, b.region, name);
    }
  }

  void guarded(const Body& b, uint32_t body, uint32_t n) {
    const Node& node = b.nodes[n];
    const Kernel& k = p_.kernels[node.kernel];
    const std::string name = node_name(p_, b, n);
    if (node.region == kNone || !k.guard) {
      out_.add("{} {}", name,
               k.guard ? "has a guard, but belongs to no region"
                       : "belongs to a region, but has no guard");
      return;
    }
    if (node.region >= p_.regions.size() ||
        p_.regions[node.region].kind != Region::Kind::predicate) {
      out_.add("{} has a guard, but region {} is not predicated", name, node.region);
      return;
    }
    const Region& r = p_.regions[node.region];
    if (node.branch >= r.sides || std::cmp_not_equal(*k.guard, node.branch)) {
      out_.add("{} stands for side {} of {}, but its guard asks for {}", name, node.branch,
               region_name(p_, node.region), *k.guard);
    }
    if (node.args.back() != r.flag || node.values.back() != p_.views[r.flag].value) {
      out_.add("the guard of {} is {} with value {}, but {} asks for {} with value {}", name,
               buffer_name(p_, p_.views[node.args.back()].buffer), node.values.back(),
               region_name(p_, node.region), buffer_name(p_, p_.views[r.flag].buffer),
               p_.views[r.flag].value);
    }
    if (r.region != b.region || r.branch != b.branch) {
      out_.add("{} stands in body {}, but {} elsewhere", name, body, region_name(p_, node.region));
    }
  }

  /// What the body's slots of one part take: a handle, the ring, or memory (as Segment::temp).
  const std::vector<Segment>& sorts_of(uint32_t kernel) {
    const auto [at, added] = sorts_.try_emplace(kernel);
    if (!added) return at->second;
    const ir::Graph& body = p_.kernels[kernel].body;
    for (const ir::Op& op : body.ops()) {
      if (op.kind != ir::OpKind::input && op.kind != ir::OpKind::param) continue;
      at->second.push_back(std::holds_alternative<ir::HandleAttr>(op.attrs) ? Segment::handle
                           : std::holds_alternative<ir::RingAttr>(op.attrs) ? Segment::ring
                                                                            : Segment::temp);
    }
    at->second.resize(at->second.size() + body.outputs.size(), Segment::temp);
    return at->second;
  }

  void plain_memory(uint32_t view, const std::string& who) {
    const Buffer& b = p_.buffers[p_.views[view].buffer];
    if (b.segment != Segment::handle && b.segment != Segment::ring &&
        b.segment != Segment::mailbox) {
      return;
    }
    out_.add("the call of {} takes {}, a {}", who, buffer_name(p_, p_.views[view].buffer),
             name_of(b.segment));
  }

  void in_region(const Buffer& buffer, uint32_t index, uint32_t region, const std::string& who) {
    if (buffer.region == kNone || buffer.region >= p_.regions.size()) return;
    while (region != kNone && region > buffer.region) region = p_.regions[region].region;
    if (region == buffer.region) return;
    out_.add("{} uses {}, which belongs to {}", who, buffer_name(p_, index),
             region_name(p_, buffer.region));
  }

  /// A name stands for one value: what regions leave, and what a loop's iterations begin with, is
  /// nothing that anybody else makes.
  void names() {
    if (p_.regions.empty()) return;
    std::set<uint32_t> made;
    for (const std::vector<Binding>* list : {&p_.inputs}) {
      for (const Binding& b : *list) made.insert(b.value);
    }
    for (const ParamBinding& b : p_.params) made.insert(b.first_value);
    for (const ScalarBinding& b : p_.scalars) made.insert(b.value);
    for (const View& v : p_.views) {
      if (p_.buffers[v.buffer].segment == Segment::constant) made.insert(v.value);
    }
    for (const Call& c : p_.calls) made.insert(c.result_values.begin(), c.result_values.end());
    for (const Body& b : p_.bodies) {
      for (const Node& n : b.nodes) {
        if (n.kernel == kNoKernel) continue;
        const std::vector<ArgSlot>& slots = p_.kernels[n.kernel].args;
        for (size_t s = 0; s < slots.size(); ++s) {
          if (slots[s].role != Role::in) made.insert(n.values[s]);
        }
      }
    }
    made.insert(kNone);
    for (uint32_t r = 0; r < p_.regions.size(); ++r) {
      for (const Region::State& s : p_.regions[r].states) {
        const bool named = p_.regions[r].loop && s.entry[0] != kNone;
        if (!made.insert(s.after).second || (named && !made.insert(s.entry[0]).second)) {
          out_.add("{} names what it does to {} like another value", region_name(p_, r),
                   buffer_name(p_, p_.views[s.view].buffer));
        }
      }
    }
  }

  /// The nodes that may run at once: one a lane, but for a conditional node those of its widest
  /// body. Bodies of a node stand behind the one it is in.
  void widths() {
    const uint32_t most = streams();
    std::vector<uint32_t> width(p_.bodies.size(), 1);
    for (size_t b = p_.bodies.size(); b-- > 0;) {
      const Body& body = p_.bodies[b];
      std::map<uint32_t, uint32_t> wide;  // lanes that hold conditional nodes
      for (const Node& n : body.nodes) {
        if (n.kernel != kNoKernel) continue;
        uint32_t& lane = wide.try_emplace(n.lane, 1).first->second;
        for (uint32_t inner : p_.regions[n.region].bodies) lane = std::max(lane, width[inner]);
      }
      uint64_t sum = body.lanes;
      for (const auto& [lane, w] : wide) sum += w - 1;
      width[b] = static_cast<uint32_t>(std::min<uint64_t>(sum, UINT32_MAX));
      if (sum > most) out_.add("graph {} runs {} nodes at once, more than {}", b, sum, most);
    }
  }

  /// What the options say, or the most there can be.
  uint32_t streams() const {
    constexpr std::string_view kKey = " streams=";
    auto most = static_cast<uint32_t>(kMaxStreams);
    const size_t at = p_.options.find(kKey);
    if (at == std::string::npos) return most;
    const char* first = p_.options.data() + at + kKey.size();
    uint32_t given = 0;
    const auto [end, error] = std::from_chars(first, p_.options.data() + p_.options.size(), given);
    return error == std::errc() && given > 0 ? std::min(given, most) : most;
  }

  const Program& p_;
  Findings& out_;
  std::vector<uint32_t> depth_;                     // by region: itself and those around it
  std::vector<uint32_t> nodes_;                     // by region of kind node: how many
  std::map<uint32_t, std::vector<Segment>> sorts_;  // by kernel
};

}  // namespace

void check_regions(const Program& p, Findings& out) { Regions(p, out).run(); }

}  // namespace braid::checking
