// The .braid file. Little endian:
//   8 bytes   "BRAIDPRG"
//   u32 u32   major, minor
//   u64       bytes of the JSON header
//   u64       bytes of the blob
//   u64       XXH3-64 of header and blob
//   header    program_json() plus "modules": [{arch, source, image}] and "constants", where source,
//             image and constants are [offset, bytes] in the blob
//   blob
#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>

#include "ir/diagnostic.hpp"
#include "ir/program_json.hpp"

namespace braid {
namespace {

constexpr char kMagic[9] = "BRAIDPRG";
constexpr size_t kHeadBytes = 8 + 4 + 4 + 8 + 8 + 8;

template <class T>
void put(std::vector<std::byte>& out, const T& x) {
  const auto* p = reinterpret_cast<const std::byte*>(&x);
  out.insert(out.end(), p, p + sizeof x);
}

template <class T>
T take(const std::vector<std::byte>& in, size_t& at) {
  T x;
  std::memcpy(&x, in.data() + at, sizeof x);
  at += sizeof x;
  return x;
}

void append(std::vector<std::byte>& out, const void* data, size_t bytes) {
  const auto* p = static_cast<const std::byte*>(data);
  out.insert(out.end(), p, p + bytes);
}

[[noreturn]] void refuse(std::string_view file, const std::string& why) {
  Diagnostic d;
  d.code = "E0840";
  d.message = fmt::format("{} is not a usable .braid file: {}", file, why);
  throw Error(std::move(d));
}

}  // namespace

std::vector<std::byte> write_program(const Program& p) {
  Json j = program_json(p);
  std::vector<std::byte> blob;
  const auto store = [&](const void* data, size_t bytes) {
    const Json range = Json::array({blob.size(), bytes});
    append(blob, data, bytes);
    return range;
  };
  j["modules"] = Json::array();
  for (const Module& m : p.modules) {
    Json module = {{"arch", m.arch},
                   {"source", store(m.source.data(), m.source.size())},
                   {"image", store(m.image.data(), m.image.size())}};
    if (!m.file.empty()) {
      module["file"] = m.file;
      module["include"] = m.include;
    }
    j["modules"].push_back(std::move(module));
  }
  j["constants"] = store(p.constants.data(), p.constants.size());
  // A place may name a file whose name is not UTF-8.
  const std::string header = j.dump(-1, ' ', false, Json::error_handler_t::replace);

  std::vector<std::byte> body;
  append(body, header.data(), header.size());
  append(body, blob.data(), blob.size());
  std::vector<std::byte> out;
  append(out, kMagic, 8);
  put(out, uint32_t{kProgramMajor});
  put(out, uint32_t{kProgramMinor});
  put(out, uint64_t{header.size()});
  put(out, uint64_t{blob.size()});
  put(out, uint64_t{XXH3_64bits(body.data(), body.size())});
  append(out, body.data(), body.size());
  return out;
}

Program read_program(const std::vector<std::byte>& bytes, std::string_view file) {
  if (bytes.size() < kHeadBytes || std::memcmp(bytes.data(), kMagic, 8) != 0) {
    refuse(file, "it does not begin like one");
  }
  size_t at = 8;
  const auto major = take<uint32_t>(bytes, at);
  const auto minor = take<uint32_t>(bytes, at);
  if (major != kProgramMajor || minor > kProgramMinor) {
    refuse(file,
           fmt::format("its version is {}.{}, this braid reads {}.0 to {}.{}: compile the model "
                       "again",
                       major, minor, kProgramMajor, kProgramMajor, kProgramMinor));
  }
  const auto header_bytes = take<uint64_t>(bytes, at);
  const auto blob_bytes = take<uint64_t>(bytes, at);
  const auto sum = take<uint64_t>(bytes, at);
  const uint64_t rest = bytes.size() - kHeadBytes;
  if (header_bytes > rest || blob_bytes != rest - header_bytes) {
    refuse(file, "it is cut short or has something appended");
  }
  if (XXH3_64bits(bytes.data() + kHeadBytes, rest) != sum) {
    refuse(file, "its checksum does not match, so it is damaged");
  }
  const char* text = reinterpret_cast<const char*>(bytes.data() + kHeadBytes);
  const std::byte* blob = bytes.data() + kHeadBytes + header_bytes;
  const auto slice = [&](const Json& range) {
    if (!range.at(0).is_number_unsigned() || !range.at(1).is_number_unsigned()) {
      throw std::runtime_error("a part of the file has no place in it");
    }
    const auto offset = range.at(0).get<uint64_t>();
    const auto size = range.at(1).get<uint64_t>();
    if (offset > blob_bytes || size > blob_bytes - offset) {
      throw std::runtime_error("a part lies outside the file");
    }
    return std::vector<std::byte>(blob + offset, blob + offset + size);
  };
  try {
    const Json j = Json::parse(text, text + header_bytes);
    Program p = program_from_json(j);
    for (const Json& m : j.at("modules")) {
      const std::vector<std::byte> source = slice(m.at("source"));
      p.modules.push_back({std::string(reinterpret_cast<const char*>(source.data()), source.size()),
                           m.at("arch").get<std::string>(),
                           slice(m.at("image")),
                           {},
                           {}});
      if (!m.contains("file")) continue;  // since 1.4
      p.modules.back().file = m.at("file").get<std::string>();
      p.modules.back().include = m.at("include").get<std::vector<std::string>>();
    }
    p.constants = slice(j.at("constants"));
    return p;
  } catch (const Error& e) {
    refuse(file, fmt::format("a kernel's body is malformed: {}",
                             e.diagnostics().empty() ? e.what() : e.diagnostics()[0].message));
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& e) {
    refuse(file, e.what());
  }
}

}  // namespace braid
