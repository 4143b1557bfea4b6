// The kernels of a Program and the graphs that launch them, as C++.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "frontend/report/cpp_emitter.hpp"
#include "ir/kernel_launch.hpp"

namespace braid::cpp_text {
namespace {

constexpr uint32_t kSharedWithoutAsking = 48 * 1024;

std::string_view conditional_type(const Program& p, const Region& region) {
  if (region.loop) return "WHILE";
  return p.views[region.flag].type.dtype == DType::b1 ? "IF" : "SWITCH";
}

/// In the driver's order, as the runtime has it: an IF begins with the side for true, and has the
/// other only if there is something in it.
std::vector<uint32_t> driver_bodies(const Program& p, const Region& region) {
  if (conditional_type(p, region) != "IF") return region.bodies;
  if (p.bodies[region.bodies[0]].nodes.empty()) return {region.bodies[1]};
  return {region.bodies[1], region.bodies[0]};
}

}  // namespace

const std::string_view kConditional = R"prelude(
// ---- Branches and loops in graphs ----

CUgraphNodeParams conditional_node(CUgraphConditionalHandle handle, CUgraphConditionalNodeType type,
                                   unsigned sides) {
  CUgraphNodeParams node{};
  node.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  node.conditional.handle = handle;
  node.conditional.type = type;
  node.conditional.size = sides;
  node.conditional.ctx = context;
  return node;
}

// What kernels set and a node decides by, and its sides.
)prelude";

void Emitter::kernels() {
  put("\n// ---- Kernels ----\n\n");
  for (size_t m = 0; m < p_.modules.size(); ++m) {
    put("extern const unsigned char cubin{}[{}];\nCUlibrary module{};\n", m,
        p_.modules[m].image.size() + 1, m);
  }
  for (uint32_t i = 0; i < p_.kernels.size(); ++i) {
    const LaunchShape& l = p_.kernels[i].launch;
    put("Kernel {}{{{{{}}}, {{{}}}, {}}};\n", kernel_name(i), fmt::join(l.grid, ", "),
        fmt::join(l.block, ", "), l.shared_bytes);
  }
  put("\nvoid load_kernels() {{\n  [[maybe_unused]] CUkernel kernel;\n");
  for (size_t m = 0; m < p_.modules.size(); ++m) {
    put("  CALL(cuLibraryLoadData(&module{0}, cubin{0}, nullptr, nullptr, 0, nullptr, nullptr, "
        "0));\n",
        m);
  }
  for (uint32_t i = 0; i < p_.kernels.size(); ++i) {
    const Kernel& k = p_.kernels[i];
    const std::string name = kernel_name(i);
    put("  CALL(cuLibraryGetKernel(&kernel, module{}, {}));\n", k.module, literal(k.symbol));
    put("  CALL(cuKernelGetFunction(&{}.function, kernel));\n", name);
    put("  CALL(cuFuncLoad({}.function));\n", name);
    const uint32_t shared = most_shared_bytes(p_, k);
    if (shared > kSharedWithoutAsking) {
      put("  CALL(cuFuncSetAttribute({}.function, "
          "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, {}));\n",
          name, shared);
    }
  }
  put("}}\n");
}

void Emitter::node_head(const Body& body, uint32_t n) {
  const Node& node = body.nodes[n];
  std::string text = fmt::format("n{}, stream {}", n, node.lane);
  if (node.kernel != kNoKernel && node.region != UINT32_MAX) {
    text += fmt::format(", where r{} takes side {}", node.region, node.branch);
  }
  text += ": ";
  if (node.kernel == kNoKernel) {
    const Region& region = p_.regions[node.region];
    text += region_text(node.region);
    if (region.unrolled > 1) text += fmt::format(", {} iterations a run", region.unrolled);
    if (!region.why.empty()) text += "; " + region.why;
  } else {
    text += fmt::format("{}", fmt::join(node.ops, ", "));
    if (!node.place.empty()) text += " (" + node.place + ")";
  }
  out_ += comment_lines("  ", text);
}

void Emitter::arguments(const Node& node) {
  std::vector<std::string> values;
  for (const uint32_t view : node.args) values.push_back(address(view));
  // An array has an element.
  if (values.empty()) values.push_back("0");
  const Kernel& k = p_.kernels[node.kernel];
  out_ += list_lines("    CUdeviceptr a[] = {", values, "};", values.size() / k.parts);
  if (k.code != Code::user) {
    put("    auto arguments = pointers_to(a);\n");
    return;
  }
  // In the order of the function's parameters: a pointer, or the bytes of a number.
  std::vector<std::string> pointers, numbers;
  for (const Parameter& p : k.parameters) {
    if (p.slot != UINT32_MAX) {
      pointers.push_back(fmt::format("&a[{}]", p.slot));
      continue;
    }
    pointers.push_back(fmt::format("&numbers[{}]", numbers.size()));
    uint64_t bits = 0;
    const std::array<std::byte, 8> bytes = scalar_bytes(p);
    std::memcpy(&bits, bytes.data(), sizeof bits);
    numbers.push_back(fmt::format("{:#x}", bits));
  }
  if (!numbers.empty()) {
    out_ += list_lines("    unsigned long long numbers[] = {", numbers, "};", numbers.size());
  }
  put("    std::array<void*, {}> arguments{{{}}};\n", pointers.size(), fmt::join(pointers, ", "));
}

bool Emitter::is_side(uint32_t body) const {
  const uint32_t region = p_.bodies[body].region;
  return region != UINT32_MAX && p_.regions[region].kind == Region::Kind::node;
}

void Emitter::graphs() {
  bool any = false;
  for (size_t b = 0; b < p_.buffers.size(); ++b) {
    if (p_.buffers[b].segment != Segment::handle) continue;
    if (!any) out_ += kConditional;
    any = true;
    put("CUgraphConditionalHandle {};\n", bases_[b]);
  }
  for (uint32_t b = 0; b < p_.bodies.size(); ++b) {
    if (is_side(b) && !p_.bodies[b].nodes.empty()) {
      put("void fill_{0}(CUgraph {0});\n", body_name(b));
    }
  }
  for (uint32_t b = 0; b < p_.bodies.size(); ++b) {
    if (p_.bodies[b].stream) {
      stream_body(b);
    } else if (!is_side(b) || !p_.bodies[b].nodes.empty()) {
      graph_body(b);
    }
  }
}

void Emitter::graph_body(uint32_t index) {
  const Body& body = p_.bodies[index];
  const std::string name = body_name(index);
  const bool side = is_side(index);
  std::string of;
  if (body.region != UINT32_MAX) {
    of = p_.regions[body.region].loop ? fmt::format(", the body of r{}", body.region)
                                      : fmt::format(", side {} of r{}", body.branch, body.region);
  }
  put("\n// ---- Graph {}{}: nodes {}, edges {}, streams {} ----\n\n", name, of, body.nodes.size(),
      body.edges.size(), body.lanes);
  if (side) {
    put("void fill_{0}(CUgraph {0}) {{\n", name);
  } else {
    put("CUgraph {0};\nCUgraphExec {0}_exec;\n\nvoid build_{0}() {{\n"
        "  CALL(cuGraphCreate(&{0}, 0));\n",
        name);
  }
  handles(body, name);
  std::vector<std::vector<const Edge*>> incoming(body.nodes.size());
  for (const Edge& e : body.edges) incoming[e.to].push_back(&e);
  for (uint32_t n = 0; n < body.nodes.size(); ++n) node(body, n, name, incoming[n]);
  if (!side) {
    put("\n  CUDA_GRAPH_INSTANTIATE_PARAMS how{{}};\n"
        "  CALL(cuGraphInstantiateWithParams(&{0}_exec, {0}, &how));\n"
        "  if (how.result_out != CUDA_GRAPH_INSTANTIATE_SUCCESS) {{\n"
        "    fail(\"{0} is not instantiated: \" + std::to_string(how.result_out));\n  }}\n"
        "  CALL(cuGraphUpload({0}_exec, stream));\n",
        name);
  }
  put("}}\n");
}

void Emitter::handles(const Body& body, const std::string& graph) {
  for (const Node& n : body.nodes) {
    if (n.kernel != kNoKernel) continue;
    put("  CALL(cuGraphConditionalHandleCreate(&{}, {}, context, 0, 0));\n",
        address(p_.regions[n.region].flag), graph);
  }
}

void Emitter::node(const Body& body, uint32_t n, const std::string& graph,
                   const std::vector<const Edge*>& incoming) {
  const Node& node = body.nodes[n];
  if (!out_.ends_with("{\n")) put("\n");
  node_head(body, n);
  put("  CUgraphNode n{}{{}};\n  {{\n", n);
  if (node.kernel != kNoKernel) arguments(node);
  std::vector<std::string> from, edges;
  for (const Edge* e : incoming) {
    from.push_back(fmt::format("n{}", e->from));
    edges.push_back(e->kind == EdgeKind::programmatic ? "programmatic" : "full");
  }
  if (!from.empty()) {
    out_ += list_lines("    const CUgraphNode from[] = {", from, "};");
    out_ += list_lines("    const CUgraphEdgeData edges[] = {", edges, "};");
  }
  if (node.kernel == kNoKernel) {
    const Region& region = p_.regions[node.region];
    put("    CUgraphNodeParams node = conditional_node({}, CU_GRAPH_COND_TYPE_{}, {});\n",
        address(region.flag), conditional_type(p_, region), driver_bodies(p_, region).size());
  } else {
    put("    CUgraphNodeParams node = kernel_node({}, arguments.data());\n",
        kernel_name(node.kernel));
  }
  put("    CALL(cuGraphAddNode(&n{}, {}, {}, {}, {}, &node));\n", n, graph,
      from.empty() ? "nullptr" : "from", from.empty() ? "nullptr" : "edges", from.size());
  if (node.kernel == kNoKernel) fill_sides(p_.regions[node.region]);
  put("  }}\n");
}

void Emitter::fill_sides(const Region& region) {
  const std::vector<uint32_t> bodies = driver_bodies(p_, region);
  for (size_t i = 0; i < bodies.size(); ++i) {
    if (p_.bodies[bodies[i]].nodes.empty()) continue;
    put("    fill_{}(node.conditional.phGraph_out[{}]);\n", body_name(bodies[i]), i);
  }
}

void Emitter::stream_body(uint32_t index) {
  const Body& body = p_.bodies[index];
  put("\n// ---- Kernels outside graphs, {} ----\n\nvoid enqueue_{}() {{\n", body_name(index),
      body_name(index));
  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    node_head(body, n);
    const LaunchShape& l = p_.kernels[body.nodes[n].kernel].launch;
    put("  {{\n");
    arguments(body.nodes[n]);
    put("    CALL(cuLaunchKernel({}.function, {}, {}, {}, stream, arguments.data(), nullptr));\n  "
        "}}\n",
        kernel_name(body.nodes[n].kernel), fmt::join(l.grid, ", "), fmt::join(l.block, ", "),
        l.shared_bytes);
  }
  put("}}\n");
}

}  // namespace braid::cpp_text
