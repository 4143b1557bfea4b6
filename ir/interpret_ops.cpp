#include "ir/interpret_ops.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace braid::ir {
namespace {

/// The elements as the class stores them.
template <class T>
auto& data(WideTensor& t) {
  if constexpr (std::is_same_v<T, double>) {
    return t.f;
  } else {
    return t.i;
  }
}
template <class T>
const auto& data(const WideTensor& t) {
  return data<T>(const_cast<WideTensor&>(t));
}

WideTensor make(const TensorType& type) {
  WideTensor t;
  t.type = type;
  const auto n = static_cast<size_t>(type.shape.numel());
  if (is_float(type.dtype)) {
    t.f.resize(n);
  } else {
    t.i.resize(n);
  }
  return t;
}

/// Calls f.template operator()<double or int64_t>() by the dtype's class.
template <class F>
auto by_class(DType t, F f) {
  if (is_float(t)) return f.template operator()<double>();
  return f.template operator()<int64_t>();
}

/// Two's complement truncation.
int64_t wrap(int64_t x, DType t) {
  switch (t) {
    case DType::i32:
      return static_cast<int32_t>(x);
    case DType::i8:
      return static_cast<int8_t>(x);
    case DType::u8:
      return static_cast<uint8_t>(x);
    case DType::b1:
      return x & 1;
    default:
      return x;
  }
}

void wrap_all(WideTensor& t) {
  if (is_float(t.type.dtype) || t.type.dtype == DType::i64) return;
  for (int64_t& x : t.i) x = wrap(x, t.type.dtype);
}

double round_one(double x, DType t) {
  switch (t) {
    case DType::f32:
      return double{static_cast<float>(x)};
    case DType::f16:
      return double{f16_to_f32(f64_to_f16(x))};
    case DType::bf16:
      return double{bf16_to_f32(f64_to_bf16(x))};
    default:
      return x;
  }
}

/// out[i] = src[offset + sum index * stride] over all indices of `extents`, row-major.
template <class T>
void strided_copy(const T* src, std::span<const int64_t> extents, std::span<const int64_t> strides,
                  T* out) {
  if (extents.empty()) {
    *out = *src;
    return;
  }
  if (std::find(extents.begin(), extents.end(), 0) != extents.end()) return;
  const size_t inner = extents.size() - 1;
  std::vector<int64_t> at(extents.size(), 0);
  while (true) {
    const T* row = src;
    for (size_t d = 0; d < inner; ++d) row += at[d] * strides[d];
    for (int64_t i = 0; i < extents[inner]; ++i) *out++ = row[i * strides[inner]];
    size_t d = inner;
    while (d > 0 && ++at[d - 1] == extents[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

int64_t saturate(double x, DType t) {
  if (std::isnan(x)) return 0;
  const auto clamp = [&](double low, double high, int64_t lowest, int64_t highest) {
    const double r = std::trunc(x);
    return r < low ? lowest : r >= high ? highest : static_cast<int64_t>(r);
  };
  switch (t) {
    case DType::i32:
      return clamp(-0x1p31, 0x1p31, INT32_MIN, INT32_MAX);
    case DType::i8:
      return clamp(-128, 128, -128, 127);
    case DType::u8:
      return clamp(0, 256, 0, 255);
    default:
      return clamp(-0x1p63, 0x1p63, INT64_MIN, INT64_MAX);
  }
}

WideTensor cast(const WideTensor& x, const TensorType& type) {
  WideTensor out = make(type);
  const bool from_float = is_float(x.type.dtype), to_float = is_float(type.dtype);
  const auto n = static_cast<size_t>(type.shape.numel());
  HostTensor one(TensorType{type.dtype, {}});
  for (size_t i = 0; i < n; ++i) {
    if (to_float && from_float) {
      out.f[i] = round_one(x.f[i], type.dtype);
    } else if (to_float) {
      one.set_int(0, x.i[i]);  // through double, a large integer would be rounded twice
      out.f[i] = one.at(0);
    } else if (type.dtype == DType::b1) {
      out.i[i] = from_float ? x.f[i] != 0 : x.i[i] != 0;
    } else {
      out.i[i] = from_float ? saturate(x.f[i], type.dtype) : wrap(x.i[i], type.dtype);
    }
  }
  return out;
}

int64_t clamp_index(int64_t i, int64_t extent) { return std::clamp<int64_t>(i, 0, extent - 1); }

}  // namespace

void round_to_dtype(WideTensor& t) {
  if (!is_float(t.type.dtype)) return;
  for (double& x : t.f) x = round_one(x, t.type.dtype);
}

WideTensor rounded_to_tf32(WideTensor t) {
  for (double& x : t.f) x = static_cast<double>(round_to_tf32(static_cast<float>(x)));
  return t;
}

WideTensor interpret_literal(const Literal& literal) {
  HostTensor host;
  host.type = literal.splat ? TensorType{literal.type.dtype, {}} : literal.type;
  host.bytes = literal.bytes;
  WideTensor t = widen(host);
  if (!literal.splat) return t;
  WideTensor out = make(literal.type);
  std::fill(out.f.begin(), out.f.end(), t.f.empty() ? 0 : t.f[0]);
  std::fill(out.i.begin(), out.i.end(), t.i.empty() ? 0 : t.i[0]);
  return out;
}

WideTensor interpret_iota(const TensorType& type, int axis) {
  WideTensor out = make(type);
  const std::vector<int64_t> extents = type.shape.extents();
  const int64_t inner = row_major_strides(extents)[static_cast<size_t>(axis)];
  const int64_t n = type.shape.numel();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t index = i / inner % extents[static_cast<size_t>(axis)];
    if (is_float(type.dtype)) {
      out.f[static_cast<size_t>(i)] = round_one(static_cast<double>(index), type.dtype);
    } else {
      out.i[static_cast<size_t>(i)] = wrap(index, type.dtype);
    }
  }
  return out;
}

WideTensor interpret_map(Fn fn, const std::vector<const WideTensor*>& operands,
                         const TensorType& type) {
  const ScalarInfo& f = braid::info(fn);
  if (f.rule == TypeRule::cast) return cast(*operands[0], type);
  WideTensor out = make(type);
  const int64_t n = type.shape.numel();
  if (f.rule == TypeRule::select) {
    const std::vector<int64_t>& p = operands[0]->i;
    by_class(type.dtype, [&]<class T>() {
      const auto& a = data<T>(*operands[1]);
      const auto& b = data<T>(*operands[2]);
      auto& o = data<T>(out);
      for (size_t i = 0; i < o.size(); ++i) o[i] = p[i] ? a[i] : b[i];
    });
    return out;
  }
  const bool floats = is_float(operands[0]->type.dtype);
  const auto fp = [&](size_t i) { return i < operands.size() ? operands[i]->f.data() : nullptr; };
  const auto ip = [&](size_t i) { return i < operands.size() ? operands[i]->i.data() : nullptr; };
  if (f.rule == TypeRule::random) {
    f.eval_random(ip(0), ip(1), ip(2), out.f.data(), n);
  } else if (f.rule == TypeRule::compare && floats) {
    f.eval_compare(fp(0), fp(1), out.i.data(), n);
  } else if (floats) {
    f.eval_float(fp(0), fp(1), fp(2), out.f.data(), n);
  } else {
    f.eval_int(ip(0), ip(1), ip(2), out.i.data(), n);
    wrap_all(out);
  }
  return out;
}

WideTensor interpret_reduce(Fn fn, const WideTensor& x, uint32_t axes, const TensorType& type) {
  const ScalarInfo& f = braid::info(fn);
  const Identity identity = identity_of(fn, type.dtype);
  const std::vector<int64_t> extents = x.type.shape.extents();
  const std::vector<int64_t> strides = row_major_strides(extents);
  std::vector<int64_t> kept, kept_strides, folded, folded_strides;
  for (size_t d = 0; d < extents.size(); ++d) {
    const bool fold = axes >> d & 1;
    (fold ? folded : kept).push_back(extents[d]);
    (fold ? folded_strides : kept_strides).push_back(strides[d]);
  }
  WideTensor out = make(type);
  // Where each result's elements begin: the offsets of the kept indices.
  std::vector<int64_t> offsets(static_cast<size_t>(x.type.shape.numel()));
  for (size_t i = 0; i < offsets.size(); ++i) offsets[i] = static_cast<int64_t>(i);
  std::vector<int64_t> starts(static_cast<size_t>(type.shape.numel()));
  if (!offsets.empty() && !starts.empty()) {
    strided_copy<int64_t>(offsets.data(), kept, kept_strides, starts.data());
  }
  int64_t count = 1;
  for (int64_t e : folded) count *= e;
  by_class(type.dtype, [&]<class T>() {
    const T* src = data<T>(x).data();
    auto& o = data<T>(out);
    std::vector<T> row(static_cast<size_t>(count));
    for (size_t i = 0; i < o.size(); ++i) {
      if (count == 0) {
        if constexpr (std::is_same_v<T, double>) {
          o[i] = identity.f;
        } else {
          o[i] = identity.i;
        }
        continue;
      }
      strided_copy<T>(src + starts[i], folded, folded_strides, row.data());
      for (int64_t n = count; n > 1; n -= n / 2) {
        const int64_t half = n / 2;
        T* upper = row.data() + (n - half);
        if constexpr (std::is_same_v<T, double>) {
          f.eval_float(row.data(), upper, nullptr, row.data(), half);
        } else {
          f.eval_int(row.data(), upper, nullptr, row.data(), half);
        }
      }
      o[i] = row[0];
    }
  });
  wrap_all(out);
  return out;
}

namespace {

/// to[j] += sum over l of x[l * step] * rows[l * n + j], for n columns and k rows.
template <class T>
void add_rows(T* to, const T* x, int64_t step, const T* rows, int64_t n, int64_t k) {
  // Signed overflow is undefined, so integers are summed without their sign.
  using U = std::conditional_t<std::is_same_v<T, double>, double, uint64_t>;
  const auto u = [](T value) { return static_cast<U>(value); };
  int64_t l = 0;
  for (; l + 4 <= k; l += 4) {  // four rows per load and store of the sums
    const U x0 = u(x[l * step]), x1 = u(x[(l + 1) * step]), x2 = u(x[(l + 2) * step]),
            x3 = u(x[(l + 3) * step]);
    const T *r0 = rows + l * n, *r1 = r0 + n, *r2 = r1 + n, *r3 = r2 + n;
    for (int64_t j = 0; j < n; ++j) {
      to[j] =
          static_cast<T>(u(to[j]) + x0 * u(r0[j]) + x1 * u(r1[j]) + x2 * u(r2[j]) + x3 * u(r3[j]));
    }
  }
  for (; l < k; ++l) {
    const U x0 = u(x[l * step]);
    const T* row = rows + l * n;
    for (int64_t j = 0; j < n; ++j) to[j] = static_cast<T>(u(to[j]) + x0 * u(row[j]));
  }
}

}  // namespace

WideTensor interpret_dot(const WideTensor& a, const WideTensor& b, const DotAttr& attr,
                         const TensorType& type) {
  const int rank = type.shape.rank();
  const int64_t m = type.shape[rank - 2].value(), n = type.shape[rank - 1].value();
  const int64_t k = a.type.shape[attr.ta ? rank - 2 : rank - 1].value();
  int64_t batch = 1;
  for (int d = 0; d < rank - 2; ++d) batch *= type.shape[d].value();
  const int64_t a_row = attr.ta ? 1 : k, a_col = attr.ta ? m : 1;
  WideTensor out = make(type);
  by_class(type.dtype, [&]<class T>() {
    const T* pa = data<T>(a).data();
    const T* pb = data<T>(b).data();
    T* po = data<T>(out).data();
    // b as [K, N], so that the innermost loop is contiguous.
    std::vector<T> packed(static_cast<size_t>(attr.tb ? k * n : 0));
    // Without k there is nothing to add, and nothing that pa and pb point to.
    for (int64_t s = 0; s < (k == 0 ? 0 : batch); ++s, pa += m * k, pb += k * n, po += m * n) {
      const T* rows = pb;
      if (attr.tb) {
        for (int64_t j = 0; j < n; ++j) {
          for (int64_t l = 0; l < k; ++l) packed[static_cast<size_t>(l * n + j)] = pb[j * k + l];
        }
        rows = packed.data();
      }
      for (int64_t i = 0; i < m; ++i) add_rows<T>(po + i * n, pa + i * a_row, a_col, rows, n, k);
    }
  });
  wrap_all(out);
  return out;
}

WideTensor interpret_view(const WideTensor& x, const ViewAttr& attr, const TensorType& type) {
  if (attr.kind == ViewKind::reshape) {
    WideTensor out = x;
    out.type = type;
    return out;
  }
  const std::vector<int64_t> from = x.type.shape.extents();
  const std::vector<int64_t> from_strides = row_major_strides(from);
  const std::vector<int64_t> to = type.shape.extents();
  std::vector<int64_t> strides(to.size(), 0);
  int64_t offset = 0;
  for (size_t d = 0; d < from.size(); ++d) {
    const auto a = static_cast<size_t>(attr.a[d]);
    if (attr.kind == ViewKind::transpose) {
      strides[d] = from_strides[a];
    } else if (attr.kind == ViewKind::broadcast) {
      strides[a] = from[d] == 1 ? 0 : from_strides[d];
    } else {
      offset += attr.a[d] * from_strides[d];
      strides[d] = attr.b[d] * from_strides[d];
    }
  }
  WideTensor out = make(type);
  if (type.shape.numel() == 0) return out;
  by_class(type.dtype, [&]<class T>() {
    strided_copy<T>(data<T>(x).data() + offset, to, strides, data<T>(out).data());
  });
  return out;
}

WideTensor interpret_concat(const std::vector<const WideTensor*>& xs, int axis,
                            const TensorType& type) {
  WideTensor out = make(type);
  const auto d = static_cast<size_t>(axis);
  const std::vector<int64_t> extents = type.shape.extents();
  const int64_t inner = row_major_strides(extents)[d];
  const int64_t row = inner * extents[d];
  int64_t outer = 1;
  for (size_t i = 0; i < d; ++i) outer *= extents[i];
  by_class(type.dtype, [&]<class T>() {
    int64_t begin = 0;
    for (const WideTensor* x : xs) {
      const int64_t piece = inner * x->type.shape[axis].value();
      for (int64_t o = 0; o < outer; ++o) {
        std::copy_n(data<T>(*x).data() + o * piece, piece, data<T>(out).data() + o * row + begin);
      }
      begin += piece;
    }
  });
  return out;
}

WideTensor interpret_gather(const WideTensor& x, const WideTensor& indices, int axis,
                            const TensorType& type) {
  WideTensor out = make(type);
  const auto d = static_cast<size_t>(axis);
  const std::vector<int64_t> extents = x.type.shape.extents();
  const int64_t inner = row_major_strides(extents)[d];
  int64_t outer = 1;
  for (size_t i = 0; i < d; ++i) outer *= extents[i];
  const auto count = static_cast<int64_t>(indices.i.size());
  if (type.shape.numel() == 0) return out;
  by_class(type.dtype, [&]<class T>() {
    const T* src = data<T>(x).data();
    T* to = data<T>(out).data();
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t j = 0; j < count; ++j) {
        const int64_t i = clamp_index(indices.i[static_cast<size_t>(j)], extents[d]);
        std::copy_n(src + (o * extents[d] + i) * inner, inner, to + (o * count + j) * inner);
      }
    }
  });
  return out;
}

WideTensor interpret_scatter(const WideTensor& x, const WideTensor& indices,
                             const WideTensor& updates, const ScatterAttr& attr) {
  WideTensor out = x;
  const auto d = static_cast<size_t>(attr.axis);
  const std::vector<int64_t> extents = x.type.shape.extents();
  const int64_t inner = row_major_strides(extents)[d];
  int64_t outer = 1;
  for (size_t i = 0; i < d; ++i) outer *= extents[i];
  const auto count = static_cast<int64_t>(indices.i.size());
  by_class(x.type.dtype, [&]<class T>() {
    const T* from = data<T>(updates).data();
    T* to = data<T>(out).data();
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t j = 0; j < count; ++j) {
        const int64_t i = indices.i[static_cast<size_t>(j)];
        if (i < 0 || i >= extents[d]) continue;
        const T* row = from + (o * count + j) * inner;
        T* into = to + (o * extents[d] + i) * inner;
        if (!attr.fn) {
          std::copy_n(row, inner, into);
        } else if constexpr (std::is_same_v<T, double>) {
          braid::info(*attr.fn).eval_float(into, row, nullptr, into, inner);
        } else {
          braid::info(*attr.fn).eval_int(into, row, nullptr, into, inner);
        }
      }
    }
  });
  wrap_all(out);
  return out;
}

WideTensor interpret_update(const WideTensor& state, const WideTensor& value,
                            std::vector<int64_t> starts) {
  WideTensor out = state;
  const std::vector<int64_t> box = value.type.shape.extents();
  const std::vector<int64_t> extents = state.type.shape.extents();
  const std::vector<int64_t> strides = row_major_strides(extents);
  int64_t begin = 0;
  for (size_t d = 0; d < box.size(); ++d) {
    begin += std::clamp<int64_t>(starts[d], 0, extents[d] - box[d]) * strides[d];
  }
  const std::vector<int64_t> box_strides = row_major_strides(box);
  const int64_t n = value.type.shape.numel();
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = begin, rest = i;
    for (size_t d = 0; d < box.size(); ++d) {
      at += rest / box_strides[d] * strides[d];
      rest %= box_strides[d];
    }
    if (is_float(state.type.dtype)) {
      out.f[static_cast<size_t>(at)] = value.f[static_cast<size_t>(i)];
    } else {
      out.i[static_cast<size_t>(at)] = value.i[static_cast<size_t>(i)];
    }
  }
  return out;
}

}  // namespace braid::ir
