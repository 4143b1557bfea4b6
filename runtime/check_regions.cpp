#include <algorithm>
#include <string_view>

#include "runtime/check_program.hpp"

namespace braid::runtime {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
/// Graphs, and scripts, are built and followed recursively.
constexpr uint32_t kDeepest = 64;

class RegionChecker {
 public:
  explicit RegionChecker(const Program& program)
      : p_(program),
        home_(program.regions.size(), kNone),
        stepped_(program.regions.size(), false),
        owner_(program.buffers.size(), kNone) {}

  void run() {
    std::vector<uint32_t> depth(p_.regions.size(), 1);
    for (uint32_t r = 0; r < p_.regions.size(); ++r) {
      const Region& region = p_.regions[r];
      require(region.region == kNone || region.region < r, "region {} lies in region {}", r,
              region.region);
      if (region.region != kNone) {
        require(region.branch < p_.regions[region.region].sides, "region {} lies in side {} of {}",
                r, region.branch, p_.regions[region.region].sides);
        depth[r] = depth[region.region] + 1;
        require(depth[r] <= kDeepest, "regions nest deeper than {}", kDeepest);
      }
      sides(r);
    }
    for (uint32_t b = 0; b < p_.bodies.size(); ++b) body(b);
    for (uint32_t r = 0; r < p_.regions.size(); ++r) {
      require(p_.regions[r].kind != Region::Kind::node || home_[r] != kNone,
              "region {} has no node", r);
    }
    handles();
    script(p_.script, kNone, 0);
    for (size_t b = 0; b < p_.buffers.size(); ++b) {
      const uint32_t region = p_.buffers[b].region;
      require(region == kNone || region < p_.regions.size(), "buffer {} lies in region {} of {}", b,
              region, p_.regions.size());
    }
  }

 private:
  template <class... Args>
  void require(bool ok, fmt::format_string<Args...> text, Args&&... args) const {
    runtime::require(p_, ok, text, std::forward<Args>(args)...);
  }

  bool is_handle(uint32_t view) const {
    return p_.buffers[p_.views[view].buffer].segment == Segment::handle;
  }

  void sides(uint32_t index) {
    const Region& r = p_.regions[index];
    const View& flag = p_.views[r.flag];
    const bool node = r.kind == Region::Kind::node, host = r.kind == Region::Kind::host;
    const bool two = flag.type.dtype == DType::b1;
    require(r.loop ? two && r.sides == 1
            : two  ? r.sides == 2
                   : r.sides > 0,
            "region {} has {} sides for a flag that is {}", index, r.sides, to_string(flag.type));
    require(!r.loop || node || host, "region {} is a loop of guarded kernels", index);
    require(r.bodies.size() == (node ? r.sides : 0) && r.scripts.size() == (host ? r.sides : 0),
            "region {} has {} bodies and {} scripts for {} sides", index, r.bodies.size(),
            r.scripts.size(), r.sides);
    require(is_handle(r.flag) == node, "region {} is {}, but its flag lies in the {} segment",
            index, name_of(r.kind), name_of(p_.buffers[flag.buffer].segment));
    if (node) {
      uint32_t& owner = owner_[flag.buffer];
      require(owner == kNone, "regions {} and {} have one handle", owner, index);
      owner = index;
    }
    for (uint32_t side = 0; side < r.bodies.size(); ++side) {
      require(r.bodies[side] < p_.bodies.size(), "region {} runs body {} of {}", index,
              r.bodies[side], p_.bodies.size());
      const Body& b = p_.bodies[r.bodies[side]];
      require(b.region == index && b.branch == side && !b.stream,
              "body {} is not that of side {} of region {}", r.bodies[side], side, index);
    }
    for (const Region::State& s : r.states) {
      require(s.view < p_.views.size(), "region {} writes view {} of {}", index, s.view,
              p_.views.size());
    }
    require(r.slab == kNone || r.slab < p_.buffers.size(),
            "region {} has its slab in buffer {} of {}", index, r.slab, p_.buffers.size());
  }

  /// The side, of a node's or the host's, that region `index` belongs to: of guarded kernels' it is
  /// no part.
  std::pair<uint32_t, uint32_t> side_around(uint32_t index) const {
    const Region* r = &p_.regions[index];
    while (r->region != kNone && p_.regions[r->region].kind == Region::Kind::predicate) {
      r = &p_.regions[r->region];
    }
    return {r->region, r->region == kNone ? 0 : r->branch};
  }

  void body(uint32_t index) {
    const Body& b = p_.bodies[index];
    require(b.region == kNone || b.region < p_.regions.size(), "body {} is of region {} of {}",
            index, b.region, p_.regions.size());
    if (b.region != kNone) {
      const Region& r = p_.regions[b.region];
      require(b.branch < r.sides && r.kind != Region::Kind::predicate &&
                  (r.kind == Region::Kind::host || r.bodies[b.branch] == index),
              "body {} is not that of side {} of region {}", index, b.branch, b.region);
    }
    for (size_t n = 0; n < b.nodes.size(); ++n) {
      const Node& node = b.nodes[n];
      if (node.region == kNone) continue;
      const Region& r = p_.regions[node.region];
      const bool conditional = node.kernel == kNoKernel;
      require(r.kind == (conditional ? Region::Kind::node : Region::Kind::predicate) &&
                  (conditional || (node.branch < r.sides && p_.kernels[node.kernel].guard)),
              "node {} of body {} does not belong to a region that is {}", n, index,
              name_of(r.kind));
      const std::pair<uint32_t, uint32_t> here(b.region, b.region == kNone ? 0 : b.branch);
      require(side_around(node.region) == here, "region {} has a node in body {}, around it",
              node.region, index);
      if (!conditional) continue;
      require(!b.stream, "body {} has a conditional node, but is no graph", index);
      require(home_[node.region] == kNone, "region {} has several nodes", node.region);
      home_[node.region] = index;
    }
  }

  /// Whether body `inner` is `outer`, or runs inside it. Every region lies in one of lower index.
  bool is_inside(uint32_t inner, uint32_t outer) const {
    while (inner != outer) {
      const uint32_t region = p_.bodies[inner].region;
      if (region == kNone || p_.regions[region].kind != Region::Kind::node) return false;
      inner = home_[region];
    }
    return true;
  }

  void handles() const {
    for (size_t b = 0; b < p_.buffers.size(); ++b) {
      require(p_.buffers[b].segment != Segment::handle || owner_[b] != kNone,
              "buffer {} is the handle of no region", b);
    }
    for (uint32_t b = 0; b < p_.bodies.size(); ++b) {
      for (size_t n = 0; n < p_.bodies[b].nodes.size(); ++n) {
        const Node& node = p_.bodies[b].nodes[n];
        if (node.kernel == kNoKernel) continue;
        const Kernel& kernel = p_.kernels[node.kernel];
        const size_t slots = kernel.args.size() - extra_arguments(kernel);
        for (size_t a = 0; a < node.args.size(); ++a) {
          const bool takes = a < slots && takes_handle(kernel, kernel.args[a].name);
          require(takes == is_handle(node.args[a]),
                  "argument {} of node {} of body {}: {} takes {}", a, n, b, kernel.symbol,
                  takes ? "a handle there" : "no handle there");
          if (!takes) continue;
          const uint32_t region = owner_[p_.views[node.args[a]].buffer];
          require(is_inside(b, home_[region]),
                  "node {} of body {} sets the handle of region {}, which is elsewhere", n, b,
                  region);
        }
      }
    }
  }

  static bool takes_handle(const Kernel& k, std::string_view name) {
    return std::any_of(k.body.ops().begin(), k.body.ops().end(), [&](const ir::Op& op) {
      return op.kind == ir::OpKind::param && std::holds_alternative<ir::HandleAttr>(op.attrs) &&
             k.body.strings[op.name] == name;
    });
  }

  void script(const std::vector<Step>& steps, uint32_t region, uint32_t side) {
    for (const Step& s : steps) {
      if (s.kind == Step::Kind::launch) {
        require(s.index < p_.bodies.size(), "the script launches body {} of {}", s.index,
                p_.bodies.size());
        const Body& b = p_.bodies[s.index];
        require(b.region == region && (region == kNone || b.branch == side),
                "a script launches body {}, which is of region {}", s.index, b.region);
      } else if (s.kind == Step::Kind::region) {
        require(s.index < p_.regions.size(), "the script goes to region {} of {}", s.index,
                p_.regions.size());
        const Region& r = p_.regions[s.index];
        require(r.kind == Region::Kind::host && r.region == region &&
                    (region == kNone || r.branch == side) && !stepped_[s.index],
                "a script goes to region {}, which is not the host's, not there, or done", s.index);
        stepped_[s.index] = true;
        for (uint32_t i = 0; i < r.sides; ++i) script(r.scripts[i], s.index, i);
      } else {
        require(s.index < p_.calls.size(), "the script takes call {} of {}", s.index,
                p_.calls.size());
      }
    }
  }

  const Program& p_;
  std::vector<uint32_t> home_;   // by region of kind node: the body that its node is in
  std::vector<bool> stepped_;    // by region: whether a script goes there
  std::vector<uint32_t> owner_;  // by buffer: the region whose handle it is
};

}  // namespace

void check_regions(const Program& program) { RegionChecker(program).run(); }

}  // namespace braid::runtime
