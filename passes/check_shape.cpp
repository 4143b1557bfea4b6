// The checker's second part: buffers, views, bindings, nodes, edges and calls, each by itself.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "passes/check_parts.hpp"

namespace braid::checking {
namespace {

class Shape {
 public:
  Shape(const Program& p, Findings& out) : p_(p), out_(out) {}

  void run() {
    buffers();
    views();
    bindings();
    for (size_t b = 0; b < p_.bodies.size(); ++b) body(b);
    for (uint32_t c = 0; c < p_.calls.size(); ++c) call(c);
  }

 private:
  void buffers() {
    if (p_.arena_bytes < 0) out_.add("the arena has {} bytes", p_.arena_bytes);
    if (p_.scalar_bytes < 0) out_.add("the scalars have {} bytes", p_.scalar_bytes);
    for (uint32_t i = 0; i < p_.buffers.size(); ++i) {
      const Buffer& b = p_.buffers[i];
      if (b.segment == Segment::constant) never_written_.insert(i);
      if (!b.type.shape.is_static() || b.bytes != b.type.bytes()) {
        out_.add("{} has {} bytes, but its type is {}", buffer_name(p_, i), b.bytes,
                 to_string(b.type));
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
        out_.add("{} at offset {} with {} bytes does not lie aligned in its {} bytes of {}",
                 buffer_name(p_, i), b.offset, b.bytes, limit, name_of(b.segment));
      }
    }
  }

  void views() {
    std::unordered_map<uint32_t, uint32_t> first;  // by value: the first view of it
    for (uint32_t i = 0; i < p_.views.size(); ++i) {
      const View& v = p_.views[i];
      if (v.buffer >= p_.buffers.size()) {
        out_.add("view {} is of buffer {}, which does not exist", i, v.buffer);
        continue;
      }
      if (!v.type.shape.is_static()) {
        out_.add("view {} has a symbolic shape", i);
        continue;
      }
      const int64_t room = p_.buffers[v.buffer].bytes;
      if (v.offset < 0 || v.type.bytes() > room || v.offset > room - v.type.bytes()) {
        out_.add("view {} leaves {}", i, buffer_name(p_, v.buffer));
      }
      if (v.strides != row_major_strides(v.type.shape.extents())) {
        out_.add("view {} of {} is not row-major", i, buffer_name(p_, v.buffer));
      }
      if (v.value == kNone) continue;
      const TensorType& other = p_.views[first.try_emplace(v.value, i).first->second].type;
      if (other.dtype != v.type.dtype || other.shape.numel() != v.type.shape.numel()) {
        out_.add("view {} shows value {} as {}, view {} as {}", i, v.value, to_string(v.type),
                 first[v.value], to_string(other));
      }
    }
  }

  void bindings() {
    const auto expect = [&](uint32_t buffer, Segment segment, const std::string& name) {
      if (buffer >= p_.buffers.size() || p_.buffers[buffer].segment != segment) {
        out_.add("{} '{}' is bound to buffer {}, which is not one", name_of(segment), name, buffer);
      }
    };
    for (const Binding& b : p_.inputs) expect(b.buffer, Segment::input, b.name);
    for (const Binding& b : p_.outputs) expect(b.buffer, Segment::output, b.name);
    for (const ParamBinding& b : p_.params) {
      expect(b.buffer, Segment::param, b.name);
      // check_flow compares what is said here with what the scripts write.
      if (!b.written) never_written_.insert(b.buffer);
    }
    for (const ScalarBinding& b : p_.scalars) expect(b.buffer, Segment::scalar, b.name);
  }

  void node(const Body& body, uint32_t n) {
    const Node& node = body.nodes[n];
    const bool conditional = node.kernel == kNoKernel;
    if (conditional && node.region >= p_.regions.size()) {
      out_.add("node {} is of region {}, which does not exist", n, node.region);
      return;
    }
    if (!conditional && node.kernel >= p_.kernels.size()) {
      out_.add("node {} launches kernel {}, which does not exist", n, node.kernel);
      return;
    }
    const std::string name = node_name(p_, body, n);
    const std::vector<ArgSlot>& slots = slots_of(p_, node);
    if (node.args.size() != slots.size() || node.values.size() != slots.size() ||
        node.values_before.size() != slots.size()) {
      out_.add("{} has {} arguments for {} slots", name, node.args.size(), slots.size());
      return;
    }
    for (size_t s = 0; s < slots.size(); ++s) {
      if (node.args[s] >= p_.views.size()) {
        out_.add("argument {} of {} is view {}, which does not exist", s, name, node.args[s]);
      } else if (p_.views[node.args[s]].type != slots[s].type) {
        out_.add("argument {} of {} is {}, but the {} takes {}", s, name,
                 to_string(p_.views[node.args[s]].type), conditional ? "region" : "kernel",
                 to_string(slots[s].type));
      } else if (slots[s].fixed && !never_written_.contains(p_.views[node.args[s]].buffer)) {
        const uint32_t b = p_.views[node.args[s]].buffer;
        out_.add("{} may read argument {} before it waits, but {} may be written", name, s,
                 b < p_.buffers.size() ? buffer_name(p_, b) : fmt::format("buffer {}", b));
      }
    }
    if (node.lane >= body.lanes) out_.add("{} is on lane {} of {}", name, node.lane, body.lanes);
    if (node.level != body.run) {
      out_.add("{} belongs to run {}, but its body to run {}", name, node.level, body.run);
    }
    window(name, node.earliest, node.level, node.latest);
  }

  void window(const std::string& name, uint32_t earliest, uint32_t level, uint32_t latest) {
    if (earliest > level || level > latest) {
      out_.add("{} is in run {}, outside its window of {} to {}", name, level, earliest, latest);
    }
  }

  void body(size_t index) {
    const Body& body = p_.bodies[index];
    if (body.lanes > static_cast<uint32_t>(kMaxStreams)) {
      out_.add("graph {} has {} lanes, more than {}", index, body.lanes, kMaxStreams);
    }
    if (body.stream && body.lanes != 1) {
      out_.add("body {} is a stream of {} lanes", index, body.lanes);
    }
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> places;
    for (uint32_t n = 0; n < body.nodes.size(); ++n) {
      node(body, n);
      const Node& node = body.nodes[n];
      const auto [at, added] = places.emplace(std::pair(node.lane, node.position), n);
      if (!added) {
        out_.add("{} shares its place in lane {} with node {}", node_name(p_, body, n), node.lane,
                 at->second);
      }
    }
    edges(body);
  }

  void edges(const Body& body) {
    const Edge* last = nullptr;
    for (const Edge& e : body.edges) {
      if (last && std::pair(last->to, last->from) >= std::pair(e.to, e.from)) {
        out_.add("the edge {} -> {} stands after {} -> {}: edges are sorted and each is there once",
                 e.from, e.to, last->from, last->to);
      }
      last = &e;
      if (e.from >= body.nodes.size() || e.to >= body.nodes.size()) {
        out_.add("the edge {} -> {} has no such nodes", e.from, e.to);
        continue;
      }
      if (e.from >= e.to) {
        out_.add("the edge {} -> {} goes against the launch order", e.from, e.to);
      }
      if (e.kind == EdgeKind::full) continue;
      const uint32_t kernel = body.nodes[e.to].kernel;
      if (kernel == kNoKernel || body.nodes[e.from].kernel == kNoKernel) {
        out_.add("the edge {} -> {} of a conditional node is programmatic", e.from, e.to);
      } else if (body.stream) {
        out_.add("the edge {} -> {} is programmatic, but in a stream", e.from, e.to);
      } else if (captured(body.nodes[e.from]) || captured(body.nodes[e.to])) {
        out_.add("the edge {} -> {} of a library kernel is programmatic", e.from, e.to);
      } else if (is_host_node(body.nodes[e.from])) {
        out_.add("the edge {} -> {} of a host node is programmatic", e.from, e.to);
      } else if (kernel < p_.kernels.size() && !p_.kernels[kernel].waits) {
        out_.add("the edge {} -> {} is programmatic, but the kernel does not wait", e.from, e.to);
      }
    }
  }

  bool captured(const Node& node) const {
    return node.kernel < p_.kernels.size() && p_.kernels[node.kernel].code == Code::library;
  }

  bool is_host_node(const Node& node) const {
    return node.kernel < p_.kernels.size() && p_.kernels[node.kernel].code == Code::host;
  }

  void call(uint32_t index) {
    const Call& call = p_.calls[index];
    const std::string name = call_name(p_, index);
    if (call.args.size() != call.values.size() ||
        call.results.size() != call.result_values.size()) {
      out_.add("{} has {} arguments with {} values and {} results with {}", name, call.args.size(),
               call.values.size(), call.results.size(), call.result_values.size());
      return;
    }
    const auto exists = [&](uint32_t view) {
      if (view < p_.views.size() && p_.views[view].buffer < p_.buffers.size()) return true;
      out_.add("{} takes view {}, which does not exist", name, view);
      return false;
    };
    for (uint32_t view : call.args) exists(view);
    for (uint32_t view : call.results) exists(view);
    window(name, call.earliest, call.level, call.latest);
  }

  const Program& p_;
  Findings& out_;
  std::unordered_set<uint32_t> never_written_;  // buffers: constants, and params that only are read
};

}  // namespace

void check_shape(const Program& p, Findings& out) { Shape(p, out).run(); }

}  // namespace braid::checking
