// What .bir text says of kernels and library calls: see code_op.hpp.
#include <fmt/format.h>

#include "ir/parse_attributes.hpp"

namespace braid::ir {

StrId GraphReader::string_attribute(std::string_view what) {
  return graph_.strings.intern(take(Kind::string, what));
}

bool GraphReader::kernel_attribute(KernelAttr& attr, const std::string& name) {
  if (name == "kernel") return attr.name = string_attribute("the kernel's name in quotes"), true;
  if (name == "function") {
    return attr.function = string_attribute("the function's name in quotes"), true;
  }
  if (name == "code") return attr.code = string_attribute("the code in quotes"), true;
  if (name == "file") return attr.file = string_attribute("the file's name in quotes"), true;
  if (name == "line") return attr.line = take_count("the line"), true;
  if (name == "reference") {
    return attr.reference = string_attribute("the function's name in quotes"), true;
  }
  if (name == "blocks") return attr.grid = three(), true;
  if (name == "threads") return attr.block = three(), true;
  if (name == "shared") return attr.shared_bytes = extent(), true;
  if (name != "include" && name != "parameters") return false;
  take_symbol("[");
  while (!at_symbol("]")) {
    if (name == "include") {
      attr.include.push_back(string_attribute("a folder's name in quotes"));
    } else {
      attr.parameters.push_back(parameter());
    }
    separator("]");
  }
  advance();
  return true;
}

bool GraphReader::library_attribute(LibraryAttr& attr, const std::string& name) {
  if (name == "workspace") return attr.workspace = dim(), true;
  if (name != "function" && name != "reference") return false;
  (name == "function" ? attr.function : attr.reference) =
      string_attribute("the function's name in quotes");
  return true;
}

CodeParameter GraphReader::parameter() {
  CodeParameter p;
  const size_t what = take_choice({"operand", "result", "extent", "scalar"},
                                  "a parameter: operand, result, extent or scalar");
  if (what < 2) {
    p.kind = what == 0 ? CodeParameter::Kind::operand : CodeParameter::Kind::result;
    p.index = take_count("the index");
    if (at(Kind::string)) p.name = string_attribute("the parameter's name in quotes");
    return p;
  }
  p.kind = CodeParameter::Kind::scalar;
  const Place place = token_.place;
  const std::string dtype = take(Kind::word, "a dtype");
  const std::optional<DType> known = dtype_from_name(dtype);
  if (!known) fail("E0205", fmt::format("unknown dtype '{}'", dtype), place);
  p.dtype = *known;
  if (what == 2) {
    p.extent = extent();
  } else {
    p.number = take_double("the scalar's value");
  }
  if (at(Kind::string)) p.name = string_attribute("the parameter's name in quotes");
  return p;
}

/// As to_string(Extent) writes it.
Extent GraphReader::extent() {
  if (!at_word("ceil")) return dim();
  advance();
  take_symbol("(");
  Extent e;
  e.dividend = dim();
  take_symbol(",");
  e.divisor = dim();
  take_symbol(")");
  if (!at_symbol("*")) return e;
  advance();
  take_symbol("(");
  e.factor = dim();
  take_symbol(")");
  return e;
}

std::array<Extent, 3> GraphReader::three() {
  std::array<Extent, 3> out;
  take_symbol("[");
  for (size_t i = 0; i < 3; ++i) {
    out[i] = extent();
    if (i < 2) take_symbol(",");
  }
  take_symbol("]");
  return out;
}

}  // namespace braid::ir
