// The reader of safetensors files: what it reads, and what it refuses.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>

#include "frontend/safetensors.hpp"
#include "ir/diagnostic.hpp"
#include "safetensors_help.hpp"
#include "temp_folder.hpp"

using namespace braid;
using testing::safetensors_bytes;
using testing::TempFolder;

namespace {

std::string write(const TempFolder& folder, const std::string& bytes) {
  const std::string path = folder.path + "/t.safetensors";
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  return path;
}

/// The code and sentence that a file is refused with; "" if it is read.
std::string error_of(const std::string& header, const std::string& elements) {
  const TempFolder folder;
  try {
    Safetensors file(write(folder, safetensors_bytes(header, elements)));
    for (const auto& t : file.tensors()) file.read(t);
  } catch (const Error& e) {
    return e.diagnostics()[0].code + ": " + e.diagnostics()[0].message;
  }
  return {};
}

void refused(const std::string& header, const std::string& elements, std::string_view part) {
  const std::string got = error_of(header, elements);
  CHECK_MESSAGE(got.find("E0111: ") == 0, header << " gave '" << got << "'");
  CHECK_MESSAGE(got.find(part) != std::string::npos, header << " gave '" << got << "'");
}

}  // namespace

TEST_CASE("safetensors: a file of known bytes") {
  // {1.5, -2} as F32 little endian, then {-3} as I64.
  const std::string elements("\x00\x00\xc0\x3f\x00\x00\x00\xc0\xfd\xff\xff\xff\xff\xff\xff\xff",
                             16);
  const TempFolder folder;
  const Safetensors file(write(
      folder, safetensors_bytes(R"({"z.w":{"shape":[1,2],"dtype":"F32","data_offsets":[0,8]},)"
                                R"("a":{"dtype":"I64","shape":[],"data_offsets":[8,16]}}  )",
                                elements)));
  REQUIRE(file.tensors().size() == 2);
  CHECK(file.tensors()[0].name == "a");
  CHECK(file.tensors()[0].type == TensorType{DType::i64, {}});
  CHECK(file.read(file.tensors()[0]).int_at(0) == -3);
  CHECK(file.tensors()[1].name == "z.w");
  CHECK(file.tensors()[1].type == TensorType{DType::f32, {1, 2}});
  CHECK(file.read(file.tensors()[1]).at(0) == 1.5);
  CHECK(file.read(file.tensors()[1]).at(1) == -2);
}

TEST_CASE("safetensors: every dtype and shape comes back as it was written") {
  const TempFolder folder;
  std::vector<std::pair<std::string, HostTensor>> tensors;
  for (int d = 0; d < kNumDTypes; ++d) {
    const auto dtype = static_cast<DType>(d);
    const std::vector<Shape> shapes{{}, {7}, {3, 0}, {2, 3, 1, 1, 2, 1, 1, 2}};
    for (size_t s = 0; s < shapes.size(); ++s) {
      tensors.emplace_back(fmt::format("{}.{}", name_of(dtype), s),
                           random_tensor({dtype, shapes[s]}, 50, fmt::format("{}{}", d, s)));
    }
  }
  const std::string path = folder.path + "/all.safetensors";
  testing::write_safetensors(path, tensors);
  const Safetensors file(path);
  REQUIRE(file.tensors().size() == tensors.size());
  for (const auto& stored : file.tensors()) {
    const HostTensor* want = nullptr;
    for (const auto& [name, t] : tensors) want = name == stored.name ? &t : want;
    REQUIRE(want);
    const HostTensor got = file.read(stored);
    CHECK(got.type == want->type);
    CHECK(got.bytes == want->bytes);
  }
}

TEST_CASE("safetensors: a header that lies is refused (E0111)") {
  const std::string four(4, 'x'), eight(8, 'x');
  const auto one = [](std::string_view dtype, std::string_view shape, std::string_view range) {
    return fmt::format(R"({{"a":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape,
                       range);
  };
  CHECK(error_of(one("F32", "[1]", "[0,4]"), four).empty());
  CHECK(error_of(one("F32", "[0]", "[0,0]"), "").empty());
  CHECK(error_of("{}", "").empty());
  refused(one("F32", "[1]", "[0,4]"), "xx",
          "ends at byte 4 of the elements, but the file has only 2");
  refused(one("F32", "[1]", "[0,4]"), eight, "4 bytes after its last tensor");
  refused(one("F32", "[1]", "[4,8]"), eight, "with a hole after");
  refused(one("F32", "[2]", "[0,4]"), four, "needs 8 bytes");
  refused(one("F32", "[1]", "[4,0]"), four, "an end that is not before it");
  refused(one("F32", "[1]", "[0]"), four, "a begin and an end");
  refused(one("F32", "[1]", "[0,-4]"), four, "no list of integers");
  refused(one("F32", "[-1]", "[0,4]"), four, "no list of integers");
  refused(one("F32", "[1.0]", "[0,4]"), four, "no list of integers");
  refused(one("F32", "1", "[0,4]"), four, "no list of integers");
  refused(one("F32", "[1e999]", "[0,4]"), four, "a number that is too large");
  refused(one("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), four, "9 axes");
  refused(one("F32", "[4611686018427387904,4]", "[0,0]"), "", "overflows");
  refused(one("F32", "[18446744073709551615]", "[0,4]"), four, "overflows");
  refused(one("F32", "[0,4611686018427387904,4]", "[0,0]"), "", "overflows");
  refused(one("F32", "[1]", "[0,18446744073709551615]"), four,
          "its range has 18446744073709551615");
  refused(one("F8_E4M3", "[4]", "[0,4]"), four, "has the dtype 'F8_E4M3'");
  refused(one("BOOL", "[4]", "[0,4]"), std::string("\0\1\2\0", 4), "neither 0 nor 1");
  refused(R"({"a":{"dtype":"F32","shape":[1]}})", four, "'data_offsets'");
  refused(R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,4]}})", four, "dtype is no string");
  refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", four, "key 'x'");
  refused(R"({"a":3})", four, "no JSON object");
  refused("[]", "", "does not begin with '{'");
  refused(" {}", "", "does not begin with '{'");
  refused("{", "", "no JSON");
  refused("{} x", "", "no JSON");
  const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  refused("{" + a + "," + a + "}", four, "the key 'a' twice");
  refused(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", four,
          "the key 'dtype' twice");
  const std::string b = R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]})";
  refused("{" + a + "," + b + "}", "xxxxxx", "begins at byte 2 of the elements, inside");
  refused("{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}", "",
          "nested deeper");
}

TEST_CASE("safetensors: what is no such file says what it may be") {
  const TempFolder folder;
  const auto error = [&](const std::string& bytes) -> Diagnostic {
    try {
      Safetensors file(write(folder, bytes));
    } catch (const Error& e) {
      return e.diagnostics()[0];
    }
    return {};
  };
  CHECK(error("").message == "the file ends after 0 bytes, inside the length of its header");
  CHECK(error(std::string("\x08\0\0\0\0\0\0\0{}", 10))
            .message.find("its header should have 8 bytes") != std::string::npos);
  CHECK(error("\xff\xff\xff\xff\xff\xff\xff\xff").message.find("above the limit") !=
        std::string::npos);
  CHECK(error("PK\x03\x04 and so on, a zip").suggestion.find("PyTorch") != std::string::npos);
  CHECK(error("GGUF\x03 and so on").suggestion.find("GGUF") != std::string::npos);
  CHECK(error("version https://git-lfs").suggestion.find("git lfs pull") != std::string::npos);
  CHECK(error("\x93NUMPY\x01 and so on").suggestion.find("folder") != std::string::npos);
  const std::string pipe = folder.path + "/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_AS(Safetensors{pipe}, Error);  // and does not wait for a writer
  CHECK_THROWS_AS(Safetensors{"/dev/zero"}, Error);
  try {
    Safetensors file(folder.path);
    FAIL("a folder was read");
  } catch (const Error& e) {
    CHECK(e.diagnostics()[0].code == "E0100");
  }
}

TEST_CASE("safetensors: a cut or garbled file is refused or read, never worse") {
  const TempFolder folder;
  const std::string path = folder.path + "/good.safetensors";
  testing::write_safetensors(path, {{"a/b", random_tensor({DType::f32, {3, 4}}, 1, "a")},
                                    {"c", random_tensor({DType::b1, {5}}, 1, "c")}});
  std::ifstream in(path, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  for (size_t i = 0; i < good.size(); ++i) {
    CHECK_THROWS_AS(Safetensors(write(folder, good.substr(0, i))), Error);
  }
  uint64_t seed = 3;
  for (int round = 0; round < 2000; ++round) {
    std::string text = good;
    for (int k = 0; k < 2; ++k) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      text[static_cast<size_t>(seed >> 33) % 200] = static_cast<char>(seed >> 20);
    }
    try {
      const Safetensors file(write(folder, text));
      for (const auto& t : file.tensors()) file.read(t);
    } catch (const Error& e) {
      CHECK(!e.diagnostics()[0].message.empty());
    }
  }
}
