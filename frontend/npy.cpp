#include "frontend/npy.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "ir/diagnostic.hpp"
#include "ir/file.hpp"

namespace braid {
namespace {

// The layout, all little endian: "\x93NUMPY", major, minor, header length (2 bytes in version 1,
// 4 bytes in 2 and 3), header, elements. The header is a Python dict literal like
// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } padded with spaces to a newline.
constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;  // of the elements in the file
constexpr uint64_t kMaxBytes = uint64_t{1} << 62;

[[noreturn]] void fail(const std::string& path, std::string message) {
  Diagnostic d;
  d.code = "E0110";
  d.message = std::move(message);
  d.place.file = path;
  throw Error(std::move(d));
}

[[noreturn]] void fail_io(const std::string& path, std::string_view doing) {
  Diagnostic d;
  d.code = "E0100";
  d.message = fmt::format("cannot {} '{}': {}", doing, path, std::strerror(errno));
  throw Error(std::move(d));
}

/// Reads the dict of the header.
class Header {
 public:
  Header(std::string_view text, const std::string& path) : text_(text), path_(path) {
    bool descr = false, order = false, shape = false;
    const auto once = [&](bool& seen) {
      if (seen) malformed();
      seen = true;
    };
    need('{');
    while (!take('}')) {
      const std::string key = string();
      need(':');
      if (key == "descr") {
        once(descr);
        skip();
        if (at_ < text_.size() && text_[at_] == '[') {
          fail(path_, "arrays of records are not supported");
        }
        dtype_name_ = string();
      } else if (key == "fortran_order") {
        once(order);
        fortran_ = boolean();
      } else if (key == "shape") {
        once(shape);
        read_shape();
      } else {
        malformed();
      }
      if (!take(',')) {
        need('}');
        break;
      }
    }
    skip();
    if (at_ != text_.size() || !descr || !order || !shape) malformed();
  }

  const std::string& dtype_name() const { return dtype_name_; }
  bool fortran() const { return fortran_; }
  const std::vector<int64_t>& extents() const { return extents_; }

 private:
  [[noreturn]] void malformed() const { fail(path_, "the .npy header is malformed"); }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void need(char c) {
    if (!take(c)) malformed();
  }
  std::string string() {
    skip();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') malformed();
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) malformed();
    const std::string s(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return s;
  }
  bool boolean() {
    skip();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return word == "True";
    }
    malformed();
  }
  void read_shape() {
    need('(');
    while (!take(')')) {
      skip();
      int64_t extent = 0;
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), extent);
      if (error != std::errc() || extent < 0) malformed();
      at_ += static_cast<size_t>(end - begin);
      if (extents_.size() == static_cast<size_t>(kMaxRank)) {
        fail(path_,
             fmt::format("the array has more than the {} axes that a tensor may have", kMaxRank));
      }
      extents_.push_back(extent);
      if (!take(',')) {
        // (3) is a number in Python, not a tuple.
        if (extents_.size() == 1) malformed();
        need(')');
        break;
      }
    }
  }

  std::string_view text_;
  const std::string& path_;
  size_t at_ = 0;
  std::string dtype_name_;
  bool fortran_ = false;
  std::vector<int64_t> extents_;
};

DType dtype_of(const std::string& descr, const std::string& path) {
  constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"f2", DType::f16}, {"f4", DType::f32}, {"f8", DType::f64}, {"i1", DType::i8},
      {"u1", DType::u8},  {"i4", DType::i32}, {"i8", DType::i64}, {"b1", DType::b1},
  };
  for (const auto& [name, dtype] : kTypes) {
    if (descr.size() != 3 || descr.substr(1) != name) continue;
    if (descr[0] == '<' || (size_of(dtype) == 1 && descr[0] == '|')) return dtype;
    if (descr[0] == '>') {
      fail(path, fmt::format("'{}' is big endian; save it as '<{}'", descr, name));
    }
  }
  fail(path, fmt::format("dtype '{}' is not supported: use f2, f4, f8, i1, u1, i4, i8 or b1, "
                         "little endian",
                         descr));
}

std::string_view descr_of(DType t) {
  switch (t) {
    case DType::f32:
    case DType::bf16:
      return "<f4";
    case DType::f16:
      return "<f2";
    case DType::f64:
      return "<f8";
    case DType::i32:
      return "<i4";
    case DType::i64:
      return "<i8";
    case DType::i8:
      return "|i1";
    case DType::u8:
      return "|u1";
    case DType::b1:
      return "|b1";
  }
  throw InternalError("write_npy: unknown dtype");
}

uint32_t little_endian(const unsigned char* bytes, size_t n) {
  uint32_t x = 0;
  for (size_t i = 0; i < n; ++i) x |= static_cast<uint32_t>(bytes[i]) << (8 * i);
  return x;
}

std::string header_text(const HostTensor& t) {
  std::string shape;
  for (int64_t n : t.type.shape.extents()) shape += fmt::format("{}, ", n);
  // NumPy writes (3,) and (3, 4).
  if (!shape.empty()) shape.resize(shape.size() - (t.type.shape.rank() == 1 ? 1 : 2));
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                 descr_of(t.type.dtype), shape);
  const size_t before = kMagic.size() + 4 + text.size() + 1;
  text.append((kAlignment - before % kAlignment) % kAlignment, ' ');
  return text + '\n';
}

/// An open file whose header was read and checked against the file's size.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    std::error_code ec;  // opening it says what else is wrong
    if (std::filesystem::is_directory(path, ec)) {
      errno = EISDIR;
      fail_io(path, "read");
    }
    in_.open(path, std::ios::binary | std::ios::ate);
    if (!in_) fail_io(path, "read");
    left_ = static_cast<uint64_t>(std::max<std::streamoff>(in_.tellg(), 0));
    in_.seekg(0);
    read_header();
  }

  const TensorType& type() const { return type_; }

  HostTensor elements() {
    HostTensor t(type_);
    read(t.bytes.data(), t.bytes.size(), "elements");
    if (type_.dtype == DType::b1 && std::any_of(t.bytes.begin(), t.bytes.end(), [](std::byte b) {
          return std::to_integer<int>(b) > 1;
        })) {
      fail(path_, "a boolean is neither 0 nor 1");
    }
    return t;
  }

 private:
  void read(void* to, uint64_t bytes, std::string_view what) {
    if (bytes > left_) fail(path_, fmt::format("the file ends inside its {}", what));
    in_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
    if (!in_) fail_io(path_, "read");
    left_ -= bytes;
  }

  void read_header() {
    unsigned char start[8];
    if (left_ < sizeof start) fail(path_, "this is no .npy file");
    read(start, sizeof start, "header");
    if (std::memcmp(start, kMagic.data(), kMagic.size()) != 0) fail(path_, "this is no .npy file");
    if (start[6] < 1 || start[6] > 3 || start[7] != 0) {
      fail(path_,
           fmt::format("version {}.{} of the .npy format is not supported: 1.0, 2.0 and 3.0 are",
                       start[6], start[7]));
    }
    unsigned char length[4];
    const size_t length_bytes = start[6] == 1 ? 2 : 4;
    read(length, length_bytes, "header");
    const uint32_t header_bytes = little_endian(length, length_bytes);
    if (header_bytes > left_) fail(path_, "the file ends inside its header");
    std::string text(header_bytes, '\0');
    read(text.data(), header_bytes, "header");

    const Header header(text, path_);
    const DType dtype = dtype_of(header.dtype_name(), path_);
    if (header.fortran() && header.extents().size() > 1) {
      fail(path_, "the array is in Fortran order; save numpy.ascontiguousarray of it");
    }
    uint64_t bytes = static_cast<uint64_t>(size_of(dtype));
    bool empty = false;
    for (int64_t n : header.extents()) {
      empty = empty || n == 0;
      if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(std::max<int64_t>(n, 1)), &bytes) ||
          bytes > kMaxBytes) {
        fail(path_, "the shape in the .npy header is too large");
      }
    }
    if (empty) bytes = 0;
    if (bytes != left_) {
      fail(path_, fmt::format("the shape in the .npy header needs {} bytes of elements, but the "
                              "file has {}",
                              bytes, left_));
    }
    type_ = {dtype, Shape::of(header.extents())};
  }

  const std::string path_;
  std::ifstream in_;
  uint64_t left_ = 0;
  TensorType type_;
};

}  // namespace

HostTensor read_npy(const std::string& path) { return Reader(path).elements(); }

TensorType npy_type(const std::string& path) { return Reader(path).type(); }

void write_npy(const std::string& path, const HostTensor& t) {
  const std::string header = header_text(t);
  const auto n = static_cast<uint16_t>(header.size());
  std::string file(kMagic);
  file += {1, 0, static_cast<char>(n & 0xff), static_cast<char>(n >> 8)};
  file += header;
  const auto append = [&](const void* data, size_t bytes) {
    file.append(static_cast<const char*>(data), bytes);
  };
  if (t.type.dtype == DType::bf16) {
    for (int64_t i = 0; i < t.numel(); ++i) {
      const auto x = static_cast<float>(t.at(i));
      append(&x, sizeof x);
    }
  } else {
    append(t.bytes.data(), t.bytes.size());
  }
  write_file(path, file.data(), file.size());
}

}  // namespace braid
