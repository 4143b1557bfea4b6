#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "frontend/npy.hpp"
#include "ir/diagnostic.hpp"

namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

/// A folder that goes away with the test.
struct Folder {
  fs::path path = fs::temp_directory_path() / fmt::format("braid_npy_{}", ::getpid());
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string file(const std::string& name, const std::string& bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
    return (path / name).string();
  }
};

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// A file of format `major`.0 with this header and these elements.
std::string npy(std::string header, const std::string& elements, int major = 1) {
  std::string length;
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) {
    length += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  }
  return "\x93NUMPY"s + static_cast<char>(major) + '\0' + length + header + elements;
}

std::string error_of(const std::string& path) {
  try {
    braid::read_npy(path);
  } catch (const braid::Error& e) {
    return e.diagnostics().front().message;
  }
  return {};
}

// What numpy.save writes for numpy.array([[1.5, -2.0], [0.25, 3e38]], dtype=numpy.float32).
const std::string kSaved =
    "\x93NUMPY\x01\x00v\x00"
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }"
    "                                                          \n"
    "\x00\x00\xc0\x3f\x00\x00\x00\xc0\x00\x00\x80\x3e\xe6\xb1\x61\x7f"s;

}  // namespace

TEST_CASE("a file that NumPy saved") {
  const Folder folder;
  REQUIRE(kSaved.size() == 128 + 16);
  const braid::HostTensor t = braid::read_npy(folder.file("a.npy", kSaved));
  CHECK(t.type == braid::TensorType{braid::DType::f32, {2, 2}});
  CHECK(t.at(0) == 1.5);
  CHECK(t.at(1) == -2.0);
  CHECK(t.at(2) == 0.25);
  CHECK(t.at(3) == doctest::Approx(3e38));
  // And the other way round, to the byte.
  braid::write_npy((folder.path / "b.npy").string(), t);
  CHECK(read_file((folder.path / "b.npy").string()) == kSaved);
}

TEST_CASE("every dtype survives a round trip") {
  const Folder folder;
  const std::string path = (folder.path / "t.npy").string();
  for (int i = 0; i < braid::kNumDTypes; ++i) {
    const auto dtype = static_cast<braid::DType>(i);
    for (const braid::Shape& shape :
         {braid::Shape{}, braid::Shape{7}, braid::Shape{3, 0, 2}, braid::Shape{2, 3, 5}}) {
      const braid::HostTensor t = braid::random_tensor({dtype, shape}, 11, "t", 2.0, -9, 100);
      braid::write_npy(path, t);
      const braid::HostTensor back = braid::read_npy(path);
      CAPTURE(braid::to_string(t.type));
      CHECK(back.type.shape == shape);
      if (dtype == braid::DType::bf16) {
        CHECK(back.type.dtype == braid::DType::f32);
        for (int64_t k = 0; k < t.numel(); ++k) CHECK(back.at(k) == t.at(k));
      } else {
        CHECK(back.type.dtype == dtype);
        CHECK(back.bytes == t.bytes);
      }
    }
  }
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 1);  // no temporary is left
}

TEST_CASE("headers that other programs write") {
  const Folder folder;
  const std::string four(4, '\1');
  const auto shape_of = [&](const std::string& header, int major = 1) {
    return braid::read_npy(folder.file("h.npy", npy(header, four, major))).type;
  };
  CHECK(shape_of("{\"shape\":(4,),\"descr\":\"|u1\",\"fortran_order\":True}") ==
        braid::TensorType{braid::DType::u8, {4}});
  CHECK(shape_of("{'descr':'<i1','fortran_order':False,'shape':(1,4,1,),}\n", 2).shape ==
        braid::Shape{1, 4, 1});
  CHECK(shape_of("{'descr': '|b1', 'fortran_order': False, 'shape': (2, 2)}   \n", 3).dtype ==
        braid::DType::b1);
  CHECK(shape_of("{'descr': '<i4', 'fortran_order': False, 'shape': ()}") ==
        braid::TensorType{braid::DType::i32, {}});
}

TEST_CASE("a truncated file is refused at every length") {
  const Folder folder;
  for (size_t n = 0; n < kSaved.size(); ++n) {
    CAPTURE(n);
    CHECK(!error_of(folder.file("cut.npy", kSaved.substr(0, n))).empty());
  }
  CHECK(error_of(folder.file("whole.npy", kSaved)).empty());
}

TEST_CASE("lying and malformed headers are refused before anything is allocated") {
  const Folder folder;
  const auto says = [&](const std::string& bytes, const std::string& part) {
    const std::string message = error_of(folder.file("bad.npy", bytes));
    CHECK_MESSAGE(message.find(part) != std::string::npos, "'" << message << "' for " << part);
  };
  const auto header = [](const std::string& descr, const std::string& shape,
                         const std::string& fortran = "False") {
    return fmt::format("{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}\n", descr, fortran,
                       shape);
  };
  const std::string sixteen(16, '\1');
  says("", "no .npy file");
  says("PK\x03\x04 this is a zip", "no .npy file");
  says("\x93NUMPY\x09\x00v\x00"s, "version 9.0");
  says("\x93NUMPY\x02\x00\xff\xff\xff\xff{}"s, "ends inside its header");
  says(npy(header("'<f4'", "(4611686018427387904,)"), sixteen), "too large");
  says(npy(header("'<f4'", "(4294967296, 4294967296, 4294967296)"), sixteen), "too large");
  says(npy(header("'<f4'", "(1000000000000,)"), sixteen), "needs 4000000000000 bytes");
  says(npy(header("'<f4'", "(0, 9223372036854775807)"), ""), "too large");
  says(npy(header("'<f4'", "(99999999999999999999,)"), sixteen), "malformed");
  says(npy(header("'<f4'", "(-4,)"), sixteen), "malformed");
  says(npy(header("'<f4'", "(4)"), sixteen), "malformed");
  says(npy(header("'<f4'", "(2, , 2)"), sixteen), "malformed");
  says(npy(header("'<f4'", "(1,1,1,1,1,1,1,1,4)"), sixteen), "more than the 8 axes");
  says(npy(header("'<f4'", "(3,)"), sixteen), "needs 12 bytes of elements, but the file has 16");
  says(npy(header("'<f4'", "(5,)"), sixteen), "needs 20 bytes");
  says(npy(header("'>f4'", "(4,)"), sixteen), "big endian");
  says(npy(header("'<c8'", "(2,)"), sixteen), "'<c8' is not supported");
  says(npy(header("'|O'", "(2,)"), sixteen), "not supported");
  says(npy(header("[('a', '<f4')]", "(4,)"), sixteen), "records");
  says(npy(header("'<f4'", "(2, 2)", "True"), sixteen), "Fortran order");
  says(npy(header("'<f4'", "(4,)", "0"), sixteen), "malformed");
  says(npy("{'descr': '<f4', 'shape': (4,)}", sixteen), "malformed");
  says(npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (4,)}", sixteen),
       "malformed");
  says(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), 'x': 'y'}", sixteen),
       "malformed");
  says(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,)} #", sixteen), "malformed");
  says(npy(header("'|b1'", "(3,)"), "\0\1\2"s), "neither 0 nor 1");
}

TEST_CASE("unreadable and unwritable files are errors that name the file") {
  const Folder folder;
  const std::string missing = (folder.path / "missing.npy").string();
  CHECK(error_of(missing).find("missing.npy': No such file") != std::string::npos);
  CHECK(error_of(folder.path.string()).find("Is a directory") != std::string::npos);
  CHECK(error_of(std::string(5000, 'x')).find("name too long") != std::string::npos);
  const braid::HostTensor t(braid::TensorType{braid::DType::f32, {2}});
  CHECK_THROWS_AS(braid::write_npy((folder.path / "no/such/folder.npy").string(), t), braid::Error);
}
