// Inside the C++ emitter: a Program's text in the making.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/report/cpp_text.hpp"
#include "ir/program.hpp"

namespace braid::cpp_text {

/// Writes the parts in the order of run(): a part uses names that earlier ones define.
class Emitter {
 public:
  explicit Emitter(const Program& p) : p_(p), bases_(p.buffers.size()) {}
  std::string run();

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), text, std::forward<Args>(args)...);
  }

  // Names.
  void name_buffers();
  /// "in0_x + 64".
  std::string address(uint32_t view) const;
  std::string kernel_name(uint32_t k) const;
  std::string body_name(uint32_t b) const;
  /// "r2: layer/loop (loop), m.toml:3:4".
  std::string region_text(uint32_t r) const;
  bool host_driven() const;
  size_t host_index(const std::string& function) const;
  std::string host_name(const std::string& function) const;

  // cpp.cpp.
  template <class Bindings>
  void pointers(const Bindings& bindings) {
    for (const auto& b : bindings) {
      put("CUdeviceptr {};  // {}\n", bases_[b.buffer], to_string(p_.buffers[b.buffer].type));
    }
  }
  void title();
  void tensors(const char* array, const std::vector<std::pair<std::string, uint32_t>>& named,
               std::string_view ending);
  void memory();
  void allocate(const std::string& name, int64_t bytes);
  void fill();
  void main_function();
  void give_back();
  void images();

  // cpp_messages.cpp: how to wait, and what comes meanwhile.
  void waits();

  // cpp_bodies.cpp: kernels and what launches them.
  void kernels();
  /// What it stands for, and its arguments as an array of pointers.
  void node_head(const Body& body, uint32_t n);
  void arguments(const Node& node);
  /// Whether it is the body of a conditional node.
  bool is_side(uint32_t body) const;
  void graphs();
  void graph_body(uint32_t index);
  void handles(const Body& body, const std::string& graph);
  void node(const Body& body, uint32_t n, const std::string& graph,
            const std::vector<const Edge*>& incoming);
  void fill_sides(const Region& region);
  void stream_body(uint32_t index);

  // cpp_host.cpp: calls of the host, and the script.
  std::vector<std::string> types(const std::vector<uint32_t>& views) const;
  void host_functions();
  /// The places of a call's arguments and results among all.
  size_t first_place(uint32_t call) const;
  void copies(const std::vector<uint32_t>& views, size_t place, bool to_host);
  void host_values(const char* name, const std::vector<uint32_t>& views, size_t place);
  void host_call(uint32_t index);
  void steps(const std::vector<Step>& script);
  /// The steps of a side, this much further in.
  void side(const std::vector<Step>& script, size_t columns);
  void host_region(uint32_t index);
  void script();

  const Program& p_;
  std::string out_;
  std::vector<std::string> bases_;  // by buffer: the C++ name of where it starts
  FileNames files_;
  std::vector<std::string> functions_;  // host functions, each once
  std::vector<int64_t> host_offsets_;   // of all calls' arguments and results
  int64_t host_bytes_ = 0;
  std::vector<std::string> allocated_;
};

}  // namespace braid::cpp_text
