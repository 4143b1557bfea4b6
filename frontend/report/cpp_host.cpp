// The host functions and the script of a Program, as C++.
#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/report/cpp_emitter.hpp"

namespace braid::cpp_text {
namespace {

constexpr int64_t kHostAlignment = 256;

}  // namespace

std::vector<std::string> Emitter::types(const std::vector<uint32_t>& views) const {
  std::vector<std::string> out;
  for (uint32_t v : views) out.push_back(to_string(p_.views[v].type));
  return out;
}

void Emitter::host_functions() {
  if (p_.calls.empty()) return;
  out_ += kHostPrelude;
  for (const Call& c : p_.calls) {
    if (host_index(c.function) == functions_.size()) functions_.push_back(c.function);
  }
  for (const std::string& f : functions_) {
    const std::string name = host_name(f);
    put("\n");
    for (size_t i = 0; i < p_.calls.size(); ++i) {
      const Call& c = p_.calls[i];
      if (c.function != f) continue;
      out_ += comment_lines(
          "", fmt::format("c{}, {} {}: ({}) -> ({})", i, c.op, c.place,
                          fmt::join(types(c.args), ", "), fmt::join(types(c.results), ", ")));
    }
    put("void {}([[maybe_unused]] const HostValues& in, [[maybe_unused]] HostValues& out) {{",
        name);
    if (f == "identity") {
      out_ += kHostIdentity;
    } else if (f == "print") {
      out_ += kHostPrint;
    } else {
      put("\n  fail({});\n",
          literal(fmt::format("{} calls the host function '{}', whose body is not part of a plan: "
                              "write it here, in {}",
                              comment(p_.name), comment(f), name)));
    }
    put("}}\n");
  }
  put("\nunsigned char* host;  // page-locked: the arguments and results of all calls\n");
  for (const Call& c : p_.calls) {
    for (const auto* views : {&c.args, &c.results}) {
      for (uint32_t v : *views) {
        host_offsets_.push_back(host_bytes_);
        const int64_t bytes = p_.views[v].type.bytes();
        host_bytes_ += (bytes + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
      }
    }
  }
  for (size_t i = 0; i < p_.calls.size(); ++i) put("CUevent c{}_there;\n", i);
}

size_t Emitter::first_place(uint32_t call) const {
  size_t at = 0;
  for (uint32_t c = 0; c < call; ++c) at += p_.calls[c].args.size() + p_.calls[c].results.size();
  return at;
}

void Emitter::copies(const std::vector<uint32_t>& views, size_t place, bool to_host) {
  for (size_t i = 0; i < views.size(); ++i) {
    const int64_t bytes = p_.views[views[i]].type.bytes();
    if (bytes == 0) continue;
    if (to_host) {
      put("  CALL(cuMemcpyDtoHAsync(host + {}, {}, {}, stream));\n", host_offsets_[place + i],
          address(views[i]), bytes);
    } else {
      put("  CALL(cuMemcpyHtoDAsync({}, host + {}, {}, stream));\n", address(views[i]),
          host_offsets_[place + i], bytes);
    }
  }
}

void Emitter::host_values(const char* name, const std::vector<uint32_t>& views, size_t place) {
  std::vector<std::string> values;
  for (size_t i = 0; i < views.size(); ++i) {
    const TensorType& t = p_.views[views[i]].type;
    values.push_back(fmt::format("{{DType::{}, {}, {}, host + {}}}", name_of(t.dtype),
                                 literal(to_string(t)), t.shape.numel(), host_offsets_[place + i]));
  }
  put("    {}{{{}}};\n", name, fmt::join(values, ", "));
}

void Emitter::host_call(uint32_t index) {
  const Call& c = p_.calls[index];
  const size_t place = first_place(index);
  put("  {{\n");
  host_values("const HostValues in", c.args, place);
  host_values("HostValues out", c.results, place + c.args.size());
  put("    for (HostValue& v : out) std::memset(v.data, 0, v.bytes());\n");
  put("    {}(in, out);\n  }}\n", host_name(c.function));
}

void Emitter::steps(const std::vector<Step>& script) {
  for (const Step& s : script) {
    switch (s.kind) {
      case Step::Kind::launch:
        if (p_.bodies[s.index].stream) {
          put("  enqueue_{}();\n", body_name(s.index));
        } else {
          put("  CALL(cuGraphLaunch({}_exec, stream));\n", body_name(s.index));
        }
        break;
      case Step::Kind::read:
        copies(p_.calls[s.index].args, first_place(s.index), true);
        put("  CALL(cuEventRecord(c{}_there, stream));\n", s.index);
        break;
      case Step::Kind::wait:
        put("  wait_for(c{}_there);\n", s.index);
        break;
      case Step::Kind::call:
        host_call(s.index);
        break;
      case Step::Kind::write:
        copies(p_.calls[s.index].results, first_place(s.index) + p_.calls[s.index].args.size(),
               false);
        break;
      case Step::Kind::region:
        host_region(s.index);
        break;
    }
  }
}

void Emitter::side(const std::vector<Step>& script, size_t columns) {
  const size_t begin = out_.size();
  steps(script);
  std::string inner = out_.substr(begin);
  out_.resize(begin);
  const std::string indent(columns, ' ');
  for (size_t at = 0; at < inner.size();) {
    const size_t end = inner.find('\n', at) + 1;
    out_ += indent;
    out_.append(inner, at, end - at);
    at = end;
  }
}

void Emitter::host_region(uint32_t index) {
  const Region& region = p_.regions[index];
  const TensorType& type = p_.views[region.flag].type;
  const std::string flag = fmt::format("decided({}, {})", address(region.flag), type.bytes());
  out_ += comment_lines("  ", region_text(index) + (region.why.empty() ? "" : "; ") + region.why);
  if (region.loop) {
    put("  while ({} != 0) {{\n", flag);
    side(region.scripts[0], 2);
  } else if (type.dtype == DType::b1) {
    put("  if ({} != 0) {{\n", flag);
    side(region.scripts[1], 2);
    put("  }} else {{\n");
    side(region.scripts[0], 2);
  } else {
    put("  switch ({}) {{\n", flag);
    for (size_t s = 0; s < region.scripts.size(); ++s) {
      put("    case {}:\n", s);
      side(region.scripts[s], 4);
      put("      break;\n");
    }
    put("    default:\n      fail({});\n",
        literal(fmt::format("{} has no such side", comment(region_text(index)))));
  }
  put("  }}\n");
}

void Emitter::script() {
  put("\n// ---- One launch ----\n\nvoid launch() {{\n");
  steps(p_.script);
  put("}}\n");
}

}  // namespace braid::cpp_text
