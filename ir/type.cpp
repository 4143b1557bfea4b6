#include "ir/type.hpp"

#include <algorithm>

#include "ir/diagnostic.hpp"

namespace braid {

Shape::Shape(std::initializer_list<Dim> dims) {
  for (Dim d : dims) push_back(d);
}
Shape::Shape(std::span<const Dim> dims) {
  for (Dim d : dims) push_back(d);
}
Shape Shape::of(std::span<const int64_t> dims) {
  Shape s;
  for (int64_t d : dims) s.push_back(Dim(d));
  return s;
}

void Shape::push_back(Dim d) {
  ensure(rank_ < kMaxRank, "a shape of more than 8 dims");
  dims_[static_cast<size_t>(rank_++)] = d;
}

bool Shape::operator==(const Shape& o) const {
  return rank_ == o.rank_ && std::equal(begin(), end(), o.begin());
}

bool Shape::is_static() const {
  return std::all_of(begin(), end(), [](Dim d) { return d.is_const(); });
}

int64_t Shape::numel() const {
  int64_t n = 1;
  for (Dim d : *this) n *= d.value();
  return n;
}

std::vector<int64_t> Shape::extents() const {
  std::vector<int64_t> e;
  for (Dim d : *this) e.push_back(d.value());
  return e;
}

std::vector<int64_t> row_major_strides(std::span<const int64_t> extents) {
  std::vector<int64_t> strides(extents.size());
  int64_t stride = 1;
  for (size_t i = extents.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= extents[i];
  }
  return strides;
}

std::string to_string(const TensorType& t, const DimTable* dims) {
  std::string s(name_of(t.dtype));
  s += '[';
  for (int i = 0; i < t.shape.rank(); ++i) {
    if (i) s += ',';
    const Dim d = t.shape[i];
    s += d.is_const() ? std::to_string(d.value()) : dims ? dims->str(d) : "?";
  }
  return s + ']';
}

}  // namespace braid
