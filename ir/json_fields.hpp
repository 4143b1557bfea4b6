// Fields of a Program as JSON, and back: what no number or name of a file may do unseen.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ir/type.hpp"

namespace braid {

using Json = nlohmann::ordered_json;

/// A number of the file as a T. The library's own get() would wrap, truncate or take a bool.
template <class T>
T integer(const Json& j) {
  if (j.is_number_unsigned()) {
    if (const auto x = j.get<uint64_t>(); std::in_range<T>(x)) return static_cast<T>(x);
  } else if (j.is_number_integer()) {
    if (const auto x = j.get<int64_t>(); std::in_range<T>(x)) return static_cast<T>(x);
  }
  throw std::runtime_error("a number is missing or too large: " + j.dump());
}

template <class T>
std::vector<T> integers(const Json& j) {
  if (!j.is_array()) throw std::runtime_error("a list of numbers is missing");
  std::vector<T> out;
  for (const Json& x : j) out.push_back(integer<T>(x));
  return out;
}

inline Json type_json(const TensorType& t) {
  return Json{{"dtype", name_of(t.dtype)}, {"shape", t.shape.extents()}};
}

inline TensorType type_from(const Json& j) {
  const auto dtype = dtype_from_name(j.at("dtype").get<std::string>());
  if (!dtype) throw std::runtime_error("unknown dtype " + j.at("dtype").dump());
  const auto extents = integers<int64_t>(j.at("shape"));
  if (extents.size() > static_cast<size_t>(kMaxRank)) throw std::runtime_error("rank above 8");
  int64_t bytes = size_of(*dtype);
  for (int64_t e : extents) {
    if (e < 0) throw std::runtime_error("negative extent");
    if (e > 0 && __builtin_mul_overflow(bytes, e, &bytes))
      throw std::runtime_error("shape overflow");
  }
  return {*dtype, Shape::of(extents)};
}

/// The enumerator whose name is the JSON string, among those up to `last`.
template <class E>
E enum_from(const Json& j, E last) {
  const auto text = j.get<std::string>();
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name_of(static_cast<E>(i)) == text) return static_cast<E>(i);
  }
  throw std::runtime_error("unknown name '" + text + "'");
}

}  // namespace braid
