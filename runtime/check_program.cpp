#include "runtime/check_program.hpp"

#include <algorithm>

#include "ir/matmul_body.hpp"

namespace braid::runtime {
namespace {

class Checker {
 public:
  explicit Checker(const Program& program) : p_(program) {}

  void run() {
    require(p_.arena_bytes >= 0, "its arena has {} bytes", p_.arena_bytes);
    require(p_.scalar_bytes >= 0 &&
                p_.scalar_bytes / kScalarAlignment <= static_cast<int64_t>(p_.scalars.size()),
            "its {} scalars take {} bytes", p_.scalars.size(), p_.scalar_bytes);
    for (size_t i = 0; i < p_.buffers.size(); ++i) buffer(i);
    for (size_t i = 0; i < p_.views.size(); ++i) view(i);
    for (const Kernel& k : p_.kernels) {
      require(k.code == Code::host || k.code == Code::library || k.module < p_.modules.size(),
              "kernel {} is in module {} of {}", k.symbol, k.module, p_.modules.size());
      parts(k);
      guard(k);
      parameters(k);
      library(k);
    }
    for (size_t b = 0; b < p_.bodies.size(); ++b) body(b);
    for (const Call& c : p_.calls) call(c);
    for (size_t r = 0; r < p_.regions.size(); ++r) {
      const Region& region = p_.regions[r];
      arguments(fmt::format("region {}", r), region.args, region.slots);
      require(region.flag < p_.views.size() && decides(p_.views[region.flag].type),
              "region {} has nothing that decides", r);
    }
    for (const Binding& b : p_.inputs) binding("input", b.name, b.buffer, Segment::input);
    for (const Binding& b : p_.outputs) binding("output", b.name, b.buffer, Segment::output);
    for (const ParamBinding& b : p_.params) binding("param", b.name, b.buffer, Segment::param);
    for (const ScalarBinding& b : p_.scalars) binding("scalar", b.name, b.buffer, Segment::scalar);
    const std::vector<bool> params = named(p_.params), scalars = named(p_.scalars);
    for (size_t i = 0; i < p_.buffers.size(); ++i) {
      const Segment s = p_.buffers[i].segment;
      require(s != Segment::param || params[i], "buffer {} is a param without a name", i);
      require(s != Segment::scalar || scalars[i], "buffer {} is a scalar without a name", i);
    }
  }

 private:
  template <class... Args>
  void require(bool ok, fmt::format_string<Args...> text, Args&&... args) const {
    runtime::require(p_, ok, text, std::forward<Args>(args)...);
  }

  /// By buffer: whether a binding is to it.
  template <class Bindings>
  std::vector<bool> named(const Bindings& bindings) const {
    std::vector<bool> found(p_.buffers.size(), false);
    for (const auto& b : bindings) found[b.buffer] = true;
    return found;
  }

  /// b1[] or i32[]: what branches and loops go by.
  static bool decides(const TensorType& type) {
    return type.shape.rank() == 0 && (type.dtype == DType::b1 || type.dtype == DType::i32);
  }

  static bool inside(int64_t offset, int64_t bytes, int64_t total) {
    return offset >= 0 && bytes >= 0 && bytes <= total && offset <= total - bytes;
  }

  void buffer(size_t i) const {
    const Buffer& b = p_.buffers[i];
    require(b.type.shape.is_static(), "buffer {} ({}) has no fixed size", i, b.name);
    if (b.segment == Segment::handle) {
      require(decides(b.type), "buffer {} ({}) is {}, and no handle", i, b.name, to_string(b.type));
      return;
    }
    require(b.bytes >= b.type.bytes(), "buffer {} ({}) has {} bytes, its type needs {}", i, b.name,
            b.bytes, b.type.bytes());
    int64_t total = b.bytes;
    if (b.segment == Segment::scalar) total = p_.scalar_bytes;
    if (b.segment == Segment::temp) total = p_.arena_bytes;
    if (b.segment == Segment::constant) total = static_cast<int64_t>(p_.constants.size());
    require(inside(b.offset, b.bytes, total),
            "buffer {} ({}) takes {} bytes at {} of a segment of {}", i, b.name, b.bytes, b.offset,
            total);
  }

  void view(size_t i) const {
    const View& v = p_.views[i];
    require(v.buffer < p_.buffers.size(), "view {} is of buffer {} of {}", i, v.buffer,
            p_.buffers.size());
    require(v.type.shape.is_static(), "view {} has no fixed size", i);
    if (p_.buffers[v.buffer].segment == Segment::handle) {
      require(v.offset == 0 && v.type == p_.buffers[v.buffer].type,
              "view {} is of part of a handle", i);
      return;
    }
    require(inside(v.offset, v.type.bytes(), p_.buffers[v.buffer].bytes),
            "view {} takes {} bytes at {} of a buffer of {}", i, v.type.bytes(), v.offset,
            p_.buffers[v.buffer].bytes);
  }

  void parts(const Kernel& k) const {
    require(k.parts > 0 && k.args.size() % k.parts == 0, "kernel {} has {} arguments for {} parts",
            k.symbol, k.args.size(), k.parts);
    const size_t slots = k.args.size() / k.parts;
    for (size_t a = slots; a < k.args.size(); ++a) {
      require(k.args[a].role == k.args[a - slots].role && k.args[a].type == k.args[a - slots].type,
              "argument {} of {} is not like that of the part before it", a, k.symbol);
    }
  }

  void guard(const Kernel& k) const {
    if (!k.guard) return;
    require(k.parts == 1 && !k.args.empty() && k.args.back().role == Role::in &&
                decides(k.args.back().type),
            "kernel {} has a guard, but no last argument that decides", k.symbol);
  }

  void library(const Kernel& k) const {
    require(k.workspace >= 0 && (k.workspace == 0 || k.code == Code::library),
            "kernel {} has a workspace of {} bytes", k.symbol, k.workspace);
    if (k.code != Code::library) return;
    require(!k.guard && k.parts == 1, "library kernel {} has a guard or parts", k.symbol);
    require(k.workspace == 0 || (!k.args.empty() && k.args.back().role == Role::out &&
                                 k.args.back().type.dtype == DType::u8 &&
                                 k.args.back().type.bytes() == k.workspace),
            "library kernel {} has no last argument of {} bytes", k.symbol, k.workspace);
    const auto ops = std::count_if(k.body.ops().begin(), k.body.ops().end(),
                                   [](const ir::Op& op) { return op.kind == ir::OpKind::library; });
    size_t slots = k.body.outputs.size();
    for (const ir::Op& op : k.body.ops()) {
      slots += op.kind == ir::OpKind::input || op.kind == ir::OpKind::param ? 1 : 0;
    }
    require(slots + extra_arguments(k) == k.args.size(),
            "library kernel {} has {} arguments, its body {}", k.symbol, k.args.size(), slots);
    require(ops == 1 || (k.function == kCublasLtMatmul && matmul_body(k.body)),
            "library kernel {} is neither one library op nor a product", k.symbol);
  }

  void parameters(const Kernel& k) const {
    if (k.code != Code::user) {
      require(k.parameters.empty(), "kernel {} has parameters, but is not the user's", k.symbol);
      return;
    }
    // 4096 bytes, which every device takes.
    require(!k.guard && k.parts == 1 && !k.parameters.empty() && k.parameters.size() <= 512,
            "kernel {} has {} parameters for {} parts", k.symbol, k.parameters.size(), k.parts);
    std::vector<bool> given(k.args.size(), false);
    for (const Parameter& p : k.parameters) {
      if (p.slot == UINT32_MAX) continue;
      require(p.slot < k.args.size(), "kernel {} passes argument {} of {}", k.symbol, p.slot,
              k.args.size());
      given[p.slot] = true;
    }
    for (size_t a = 0; a < given.size(); ++a) {
      require(given[a], "argument {} of {} is no parameter", a, k.symbol);
    }
  }

  void call(const Call& c) const {
    for (const std::vector<uint32_t>* views : {&c.args, &c.results}) {
      for (uint32_t v : *views) {
        require(v < p_.views.size(), "the call of '{}' names view {} of {}", c.function, v,
                p_.views.size());
        require(p_.buffers[p_.views[v].buffer].segment != Segment::handle,
                "the call of '{}' takes a handle", c.function);
      }
    }
  }

  void body(size_t index) const {
    const Body& b = p_.bodies[index];
    for (size_t n = 0; n < b.nodes.size(); ++n) {
      const Node& node = b.nodes[n];
      const bool conditional = node.kernel == kNoKernel;
      require(conditional || node.kernel < p_.kernels.size(), "node {} launches kernel {} of {}", n,
              node.kernel, p_.kernels.size());
      require(conditional ? node.region < p_.regions.size()
                          : node.region == UINT32_MAX || node.region < p_.regions.size(),
              "node {} is of region {} of {}", n, node.region, p_.regions.size());
      arguments(fmt::format("node {}", n), node.args, slots_of(p_, node));
    }
    for (const Edge& e : b.edges) {
      require(e.from < e.to && e.to < b.nodes.size(), "an edge goes from node {} to node {} of {}",
              e.from, e.to, b.nodes.size());
      require(e.kind == EdgeKind::full || (is_kernel(b.nodes[e.from]) && is_kernel(b.nodes[e.to])),
              "the edge from node {} to node {} is programmatic, but both must be kernels", e.from,
              e.to);
    }
  }

  bool is_kernel(const Node& node) const {
    return node.kernel != kNoKernel && is_launch(p_.kernels[node.kernel]);
  }

  void arguments(const std::string& what, const std::vector<uint32_t>& views,
                 const std::vector<ArgSlot>& slots) const {
    require(views.size() == slots.size(), "{} gives {} arguments for {}", what, views.size(),
            slots.size());
    for (size_t a = 0; a < views.size(); ++a) {
      require(views[a] < p_.views.size(), "{} names view {} of {}", what, views[a],
              p_.views.size());
      require(p_.views[views[a]].type == slots[a].type, "argument {} of {} is {}, not {}", a, what,
              to_string(p_.views[views[a]].type), to_string(slots[a].type));
    }
  }

  void binding(const char* what, const std::string& name, uint32_t index, Segment segment) const {
    require(index < p_.buffers.size(), "{} '{}' is buffer {} of {}", what, name, index,
            p_.buffers.size());
    require(p_.buffers[index].segment == segment, "{} '{}' is in the {} segment", what, name,
            name_of(p_.buffers[index].segment));
  }

  const Program& p_;
};

}  // namespace

void check_program(const Program& program) {
  Checker(program).run();
  check_regions(program);
  check_messages(program);
  check_exchanges(program);
}

}  // namespace braid::runtime
