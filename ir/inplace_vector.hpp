// A vector of at most N elements, stored in place: what of C++26's std::inplace_vector is used
// here.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <initializer_list>
#include <iterator>

#include "ir/diagnostic.hpp"

namespace braid {

/// Iterators and references stay valid while elements are added at the end. Throws InternalError
/// where more than N elements would be needed.
template <class T, size_t N>
class InplaceVector {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  InplaceVector() = default;
  explicit InplaceVector(size_t count, const T& value = T()) {
    resize(count);
    std::fill(begin(), end(), value);
  }
  template <std::input_iterator It>
  InplaceVector(It first, It last) {
    insert(end(), first, last);
  }
  InplaceVector(std::initializer_list<T> elements)
      : InplaceVector(elements.begin(), elements.end()) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return elements_.data(); }
  const T* data() const { return elements_.data(); }
  T* begin() { return data(); }
  const T* begin() const { return data(); }
  T* end() { return data() + size_; }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) { return elements_[i]; }
  const T& operator[](size_t i) const { return elements_[i]; }
  const T& back() const { return elements_[size_ - 1]; }

  void push_back(const T& element) {
    resize(size_ + 1);
    elements_[size_ - 1] = element;
  }
  template <std::input_iterator It>
  void insert(const_iterator before, It first, It last) {
    const auto at = before - begin();
    const auto old = end();
    for (; first != last; ++first) push_back(*first);
    std::rotate(begin() + at, old, end());
  }

  bool operator==(const InplaceVector& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }
  auto operator<=>(const InplaceVector& other) const {
    return std::lexicographical_compare_three_way(begin(), end(), other.begin(), other.end());
  }

 private:
  void resize(size_t size) {
    ensure(size <= N, "an InplaceVector has no room for so many elements");
    size_ = size;
  }

  size_t size_ = 0;
  std::array<T, N> elements_{};
};

}  // namespace braid
