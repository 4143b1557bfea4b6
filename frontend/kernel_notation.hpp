// How parameters and launches of kernels are written, in model files and in C++ alike.
//
//   in x: f32[T, 64]      a tensor that the kernel reads
//   out y: f32[T, 64]     one that it makes
//   inout c: f32[C, 64]   one that it changes
//   i32 T, f32 0.5        a number by value: an extent, or a literal; "i32 rows = T" names it
//
// An extent is made of integers, names, + - * / and parentheses. Where launches and numbers need
// it, it may have one ceil(a, b), a / b rounded up, as a factor.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op.hpp"

namespace braid {

struct KernelParameter {
  enum class Role : uint8_t { in, out, inout, number } role = Role::in;
  std::string name;  // empty for a number without one
  std::string dtype;
  std::vector<std::string> extents{};  // of a tensor
  std::string value{};                 // of a number
  /// As it is written, in canonical form.
  std::string text() const;
  bool is_operand() const { return role == Role::in || role == Role::inout; }
  bool is_result() const { return role == Role::out; }
};

/// Reads a parameter; nothing if it is malformed, with the reason in `why`.
std::optional<KernelParameter> parse_kernel_parameter(std::string_view text, std::string* why);

/// The names that tensors which a kernel reads give a value to: those that are an extent alone.
std::set<std::string, std::less<>> bound_names(const std::vector<KernelParameter>& parameters);

/// The names in an extent, in order.
std::vector<std::string> names_in_extent(std::string_view text);
/// The extent with each name replaced by what `of` gives for it.
std::string replace_names(std::string_view text,
                          const std::function<std::string(const std::string&)>& of);

/// Evaluates an extent. `of` gives the dim of a name, or nothing. Nothing after a mistake, with the
/// reason in `why`.
std::optional<ir::Extent> parse_kernel_extent(
    DimTable& dims, std::string_view text,
    const std::function<std::optional<Dim>(const std::string&)>& of, std::string* why);

}  // namespace braid
