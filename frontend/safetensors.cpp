#include "frontend/safetensors.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "ir/diagnostic.hpp"

namespace braid {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 100'000'000;
constexpr int kMaxDepth = 3;  // of the JSON: tensors, their keys, lists

[[noreturn]] void fail(const std::string& path, std::string message, std::string suggestion = {}) {
  Diagnostic d;
  d.code = "E0111";
  d.message = std::move(message);
  d.suggestion = std::move(suggestion);
  d.place.file = path;
  throw Error(std::move(d));
}

[[noreturn]] void fail_io(const std::string& path, int why) {
  Diagnostic d;
  d.code = "E0100";
  d.message = fmt::format("cannot read '{}': {}", path, std::strerror(why));
  throw Error(std::move(d));
}

DType dtype_of(const std::string& name, const std::string& tensor, const std::string& path) {
  constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"F32", DType::f32}, {"F16", DType::f16}, {"BF16", DType::bf16},
      {"F64", DType::f64}, {"I64", DType::i64}, {"I32", DType::i32},
      {"I8", DType::i8},   {"U8", DType::u8},   {"BOOL", DType::b1},
  };
  for (const auto& [known, dtype] : kTypes) {
    if (name == known) return dtype;
  }
  fail(path,
       fmt::format("tensor '{}' has the dtype '{}': F32, F16, BF16, F64, I64, I32, I8, U8 and "
                   "BOOL are supported",
                   tensor, name));
}

/// The header as JSON. The library itself would let the last of two equal keys win.
Json parse_header(const std::string& text, const std::string& path) {
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth) fail(path, "the header is nested deeper than a safetensors header is");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto key = parsed.get<std::string>();
      if (!keys.back().insert(key).second) {
        fail(path, fmt::format("the header has the key '{}' twice", key));
      }
    }
    return true;
  };
  try {
    Json j = Json::parse(text, watch);
    if (!j.is_object()) fail(path, "the header is no JSON object");
    return j;
  } catch (const Json::parse_error& e) {
    fail(path, fmt::format("the header is no JSON: it goes wrong at byte {} of the file",
                           kLengthBytes + e.byte));
  } catch (const Json::exception&) {
    fail(path, "the header holds a number that is too large");
  }
}

std::vector<uint64_t> integers(const Json& j, const std::string& what, const std::string& path) {
  std::vector<uint64_t> list;
  if (j.is_array()) {
    for (const Json& x : j) {
      if (!x.is_number_unsigned()) break;
      list.push_back(x.get<uint64_t>());
    }
    if (list.size() == j.size()) return list;
  }
  fail(path, fmt::format("{} is no list of integers, 0 or above", what));
}

/// One entry of the header: its type and its range of bytes.
struct Entry {
  Safetensors::Tensor tensor;
  uint64_t begin = 0, end = 0;
};

Entry read_entry(const std::string& name, const Json& j, const std::string& path) {
  const std::string what = fmt::format("tensor '{}'", name);
  if (!j.is_object()) fail(path, what + " is no JSON object");
  for (const auto& [key, value] : j.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      fail(path, fmt::format("{} has the unknown key '{}'", what, key));
    }
  }
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!j.contains(key)) fail(path, fmt::format("{} has no '{}'", what, key));
  }
  if (!j["dtype"].is_string()) fail(path, what + ": its dtype is no string");
  const DType dtype = dtype_of(j["dtype"].get<std::string>(), name, path);
  const std::vector<uint64_t> shape = integers(j["shape"], what + ": its shape", path);
  const std::vector<uint64_t> range = integers(j["data_offsets"], what + ": its range", path);
  if (shape.size() > static_cast<size_t>(kMaxRank)) {
    fail(path, fmt::format("{} has {} axes, more than the {} that a tensor may have", what,
                           shape.size(), kMaxRank));
  }
  if (range.size() != 2 || range[0] > range[1]) {
    fail(path, what + ": data_offsets must be a begin and an end that is not before it");
  }
  // Extents of 0 make the others harmless only if each fits by itself.
  auto bytes = static_cast<uint64_t>(size_of(dtype));
  bool empty = false;
  std::vector<int64_t> extents;
  for (uint64_t n : shape) {
    empty = empty || n == 0;
    if (n > INT64_MAX || __builtin_mul_overflow(bytes, std::max<uint64_t>(n, 1), &bytes) ||
        bytes > INT64_MAX) {
      fail(path, what + ": its shape overflows 63 bits");
    }
    extents.push_back(static_cast<int64_t>(n));
  }
  if (empty) bytes = 0;
  if (bytes != range[1] - range[0]) {
    fail(path, fmt::format("{} needs {} bytes by its dtype and shape, but its range has {}", what,
                           bytes, range[1] - range[0]));
  }
  return {{name, {dtype, Shape::of(extents)}, 0}, range[0], range[1]};
}

/// What people hand over in place of a safetensors file.
std::string other_format(const unsigned char* head) {
  const bool zip = head[0] == 'P' && head[1] == 'K';
  const bool pickle = head[0] == 0x80 && head[1] <= 5;
  if (zip || pickle) {
    return "is this a PyTorch file? Write it again with "
           "safetensors.torch.save_file(model.state_dict(), ..)";
  }
  if (std::memcmp(head, "GGUF", 4) == 0) return "this is a GGUF file: convert it to safetensors";
  if (std::memcmp(head, "\x93NUMPY", 6) == 0) {
    return "this is a .npy file: put it into a folder and name the folder";
  }
  if (std::memcmp(head, "version ", 8) == 0) {
    return "this is a Git LFS pointer: fetch the file with 'git lfs pull'";
  }
  return {};
}

}  // namespace

Safetensors::Safetensors(std::string path) : path_(std::move(path)), file_(nullptr, std::fclose) {
  struct stat status{};
  // Before it is opened, which would wait for the other end of a pipe.
  if (::stat(path_.c_str(), &status) != 0) fail_io(path_, errno);
  if (S_ISDIR(status.st_mode)) fail_io(path_, EISDIR);
  if (!S_ISREG(status.st_mode)) fail(path_, "weights are read in parts, so not from a pipe");
  file_.reset(std::fopen(path_.c_str(), "rb"));
  if (!file_) fail_io(path_, errno);
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size < kLengthBytes) {
    fail(path_, fmt::format("the file ends after {} bytes, inside the length of its header", size));
  }
  unsigned char head[kLengthBytes];
  read_bytes(0, head, kLengthBytes, "the length of the header");
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= uint64_t{head[i]} << (8 * i);
  if (length > kMaxHeader || length > size - kLengthBytes) {
    const std::string why =
        length > kMaxHeader
            ? fmt::format("its first 8 bytes give a header of {} bytes, above the limit of {}",
                          length, kMaxHeader)
            : fmt::format("its header should have {} bytes, but the file ends after {}", length,
                          size - kLengthBytes);
    const std::string other = other_format(head);
    fail(path_,
         (other.empty() ? "the file is cut short or no safetensors file: "
                        : "this is no safetensors file: ") +
             why,
         other);
  }
  std::string text(length, '\0');
  read_bytes(kLengthBytes, text.data(), length, "the header");
  if (text.empty() || text[0] != '{') fail(path_, "the header does not begin with '{'");

  const Json header = parse_header(text, path_);
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name != "__metadata__") entries.push_back(read_entry(name, value, path_));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  const uint64_t data = kLengthBytes + length, held = size - data;
  uint64_t at = 0;
  for (Entry& e : entries) {
    if (e.begin != at) {
      fail(path_,
           fmt::format("tensor '{}' begins at byte {} of the elements, {} the tensor before "
                       "it, which ends at {}",
                       e.tensor.name, e.begin, e.begin < at ? "inside" : "with a hole after", at));
    }
    if (e.end > held) {
      fail(path_, fmt::format("tensor '{}' ends at byte {} of the elements, but the file has only "
                              "{}: it is cut short",
                              e.tensor.name, e.end, held));
    }
    at = e.end;
    e.tensor.offset = data + e.begin;
  }
  if (at != held) {
    fail(path_, fmt::format("the file has {} bytes after its last tensor", held - at));
  }
  for (Entry& e : entries) tensors_.push_back(std::move(e.tensor));
  std::sort(tensors_.begin(), tensors_.end(),
            [](const Tensor& a, const Tensor& b) { return a.name < b.name; });
}

void Safetensors::read_bytes(uint64_t offset, void* to, uint64_t bytes,
                             std::string_view what) const {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t n = ::pread(::fileno(file_.get()), at, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_io(path_, errno);
    if (n == 0) fail(path_, fmt::format("the file ends inside {}", what));
    at += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<uint64_t>(n);
  }
}

HostTensor Safetensors::read(const Tensor& tensor) const {
  HostTensor t(tensor.type);
  const std::string what = fmt::format("tensor '{}'", tensor.name);
  read_bytes(tensor.offset, t.bytes.data(), t.bytes.size(), what);
  if (t.type.dtype == DType::b1 &&
      std::any_of(t.bytes.begin(), t.bytes.end(), [](std::byte b) { return b > std::byte{1}; })) {
    fail(path_, what + " holds a boolean that is neither 0 nor 1");
  }
  return t;
}

}  // namespace braid
