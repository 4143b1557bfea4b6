// The kernels of a Program and the graphs that launch them, as C++.
#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/report/cpp_emitter.hpp"

namespace braid::cpp_text {
namespace {

constexpr uint32_t kSharedWithoutAsking = 48 * 1024;

}  // namespace

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
    if (k.launch.shared_bytes > kSharedWithoutAsking) {
      put("  CALL(cuFuncSetAttribute({}.function, "
          "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, {}));\n",
          name, k.launch.shared_bytes);
    }
  }
  put("}}\n");
}

void Emitter::node_head(const Body& body, uint32_t n) {
  const Node& node = body.nodes[n];
  out_ += comment_lines(
      "  ", fmt::format("n{}, stream {}: {}{}{}{}", n, node.lane, fmt::join(node.ops, ", "),
                        node.place.empty() ? "" : " (", node.place, node.place.empty() ? "" : ")"));
}

void Emitter::arguments(const Node& node) {
  std::vector<std::string> values;
  for (const uint32_t view : node.args) values.push_back(address(view));
  // An array has an element.
  if (values.empty()) values.push_back("0");
  const Kernel& k = p_.kernels[node.kernel];
  out_ += list_lines("    CUdeviceptr a[] = {", values, "};", values.size() / k.parts);
  put("    auto arguments = pointers_to(a);\n");
}

void Emitter::graph_body(uint32_t index) {
  const Body& body = p_.bodies[index];
  const std::string name = body_name(index);
  put("\n// ---- Graph {0}: nodes {1}, edges {2}, streams {3} ----\n\n"
      "CUgraph {0};\nCUgraphExec {0}_exec;\n\nvoid build_{0}() {{\n"
      "  CALL(cuGraphCreate(&{0}, 0));\n",
      name, body.nodes.size(), body.edges.size(), body.lanes);
  std::vector<std::vector<const Edge*>> incoming(body.nodes.size());
  for (const Edge& e : body.edges) incoming[e.to].push_back(&e);
  for (uint32_t n = 0; n < body.nodes.size(); ++n) {
    put("\n");
    node_head(body, n);
    put("  CUgraphNode n{};\n  {{\n", n);
    arguments(body.nodes[n]);
    std::vector<std::string> from, edges;
    for (const Edge* e : incoming[n]) {
      from.push_back(fmt::format("n{}", e->from));
      edges.push_back(e->kind == EdgeKind::programmatic ? "programmatic" : "full");
    }
    if (!from.empty()) {
      out_ += list_lines("    const CUgraphNode from[] = {", from, "};");
      out_ += list_lines("    const CUgraphEdgeData edges[] = {", edges, "};");
    }
    put("    CUgraphNodeParams node = kernel_node({}, arguments.data());\n",
        kernel_name(body.nodes[n].kernel));
    put("    CALL(cuGraphAddNode(&n{}, {}, {}, {}, {}, &node));\n  }}\n", n, name,
        from.empty() ? "nullptr" : "from", from.empty() ? "nullptr" : "edges", from.size());
  }
  put("\n  CUDA_GRAPH_INSTANTIATE_PARAMS how{{}};\n"
      "  CALL(cuGraphInstantiateWithParams(&{0}_exec, {0}, &how));\n"
      "  if (how.result_out != CUDA_GRAPH_INSTANTIATE_SUCCESS) {{\n"
      "    fail(\"{0} is not instantiated: \" + std::to_string(how.result_out));\n  }}\n"
      "  CALL(cuGraphUpload({0}_exec, stream));\n}}\n",
      name);
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
